"""Who is turned away at the door: requests that could never be served to their end."""


def why_never_served(request, config, discipline, resources=True):
    """First reason that applies, or None. Without `resources`, only what the trace itself says."""
    if request.prompt == 0:
        return "empty_prompt"
    if request.output == 0:
        return "empty_output"
    if config["max_model_len"] is not None and request.prompt >= config["max_model_len"]:
        return "max_model_len"
    if config["max_tokens"] is not None and request.output > config["max_tokens"]:
        return "max_tokens"
    return what_is_too_small(request, config, discipline) if resources else None


def what_is_too_small(request, config, discipline):
    capacity = config["kv_blocks"]
    if capacity is not None and discipline.smallest_kv_need(request, config) > capacity:
        return "kv_blocks"
    demand = discipline.smallest_demand(request, config)
    for bound in (config["max_num_batched_tokens"], config["max_prefill_tokens"]):
        if bound is not None and demand > bound:
            return "token_budget"
    return None
