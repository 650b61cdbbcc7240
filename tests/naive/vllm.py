"""The scheduler of vLLM v1."""

import math

from naive.paged import Chunked


class Vllm(Chunked):
    """vLLM v1's scheduler, of version 0.33 or 0.19.

    The older one goes through the members by their places. A victim that was scheduled moves the
    place back, but one that was passed over does not, so that the next member is left out.
    """

    def serve_running(self, engine, step):
        self.serve(engine, step, list(engine.active))

    def threshold(self, config, unfinished):
        threshold = config["long_prefill_token_threshold"]
        if threshold == 0 or (unfinished <= 1 and not is_old(config)):
            return math.inf
        if config["long_prefill_token_threshold_adaptive"] and not is_old(config):
            return max(threshold, config["max_num_batched_tokens"] // unfinished)
        return threshold

    def cuts_new_ones(self, config):
        return config["enable_chunked_prefill"]

    def smallest_demand(self, request, config):
        if self.cuts_new_ones(config):
            return 1
        return min(request.prompt, config["long_prefill_token_threshold"] or request.prompt)

    def passes_over(self, engine, step, member):
        if step.to_leave_out > 0:
            step.to_leave_out -= 1
            engine.events["left_out"] += 1
            return True
        return super().passes_over(engine, step, member)

    def on_victim(self, engine, step, victim):
        if is_old(engine.config) and victim in step.passed_over:
            step.to_leave_out += 1

    def watermark_blocks(self, engine):
        return 0 if is_old(engine.config) else super().watermark_blocks(engine)

    def goes_on_after_self_preemption(self, config):
        return super().goes_on_after_self_preemption(config) and not is_old(config)


def is_old(config):
    return config["vllm_version"] == "0.19"
