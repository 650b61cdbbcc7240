"""Made-up step logs in vLLM's format, for tests that need no data from outside."""

import json

# Three usable blocks of 4 tokens. Each request costs one for its prompt.
SETTINGS = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 8,
    "max_model_len": 64,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "num_blocks": 4,
    "block_size": 4,
    "policy": "fcfs",
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
}


def request(id, prompt_len, output_len, arrival_step=0):
    return {
        "id": id,
        "arrival_step": arrival_step,
        "prompt_len": prompt_len,
        "output_len": output_len,
        "priority": 0,
        "arrival_time": id,
    }


def step(number, scheduled, free, running, waiting=(), **more):
    """A record; blocks are as free after the output unless `after` says otherwise."""
    return {
        "step": number,
        "scheduled": scheduled,
        "free_blocks_after_schedule": free,
        "num_running": len(running),
        "num_waiting": len(waiting),
        "running_order": running,
        "waiting_order": list(waiting),
        "free_blocks_after_update": more.pop("after", free),
        **more,
    }


def preempting():
    """Request 1 finds no block for its 5th token in step 1, and has none until 0 has ended.

    It gives its only block back and needs two to come back, for 4 + 1 tokens: in steps 2 to 4 one
    is free. In step 5 request 0 takes it for its 9th token, and ends with its 6th token of output.
    """
    return {
        "format": "vllm-v1-scheduler-steps/1",
        "vllm": "0.33.0",
        "name": "preempting",
        "config": dict(SETTINGS),
        "requests": [request(0, 4, 6), request(1, 4, 3)],
        "steps": [
            step(0, [[0, 4], [1, 4]], 1, [0, 1], newly_admitted=[0, 1]),
            step(1, [[0, 1]], 1, [0], [1], preempted=[1]),
            step(2, [[0, 1]], 1, [0], [1]),
            step(3, [[0, 1]], 1, [0], [1]),
            step(4, [[0, 1]], 1, [0], [1]),
            step(5, [[0, 1]], 0, [0], [1], finished=[0], after=3),
            step(6, [[1, 5]], 1, [1], resumed=[1]),
            step(7, [[1, 1]], 1, [1], finished=[1], after=3),
        ],
    }


def stuck():
    """Request 1 would need 4 of 3 blocks: vLLM stands still in step 2 and makes empty steps."""
    standing = [step(number, [], 3, [], [1, 2]) for number in (2, 3, 4)]
    return {
        **preempting(),
        "name": "stuck",
        "requests": [request(0, 4, 2), request(1, 13, 1), request(2, 1, 1, arrival_step=3)],
        "steps": [
            step(0, [[0, 4]], 2, [0], [1], newly_admitted=[0]),
            step(1, [[0, 1]], 1, [0], [1], finished=[0], after=3),
            {**standing[0], "num_waiting": 1, "waiting_order": [1]},
            *standing[1:],
        ],
    }


def write(scenario, path):
    path.write_text(json.dumps(scenario))
    return path
