"""Made-up step logs in vLLM's formats, for tests that need no data from outside."""

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


def request(id, prompt_len, output_len, arrival_step=0, **more):
    return {
        "id": id,
        "arrival_step": arrival_step,
        "prompt_len": prompt_len,
        "output_len": output_len,
        "priority": 0,
        "arrival_time": id,
        **more,
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
        "max_steps": 5,
        "requests": [request(0, 4, 2), request(1, 13, 1), request(2, 1, 1, arrival_step=3)],
        "steps": [
            step(0, [[0, 4]], 2, [0], [1], newly_admitted=[0]),
            step(1, [[0, 1]], 1, [0], [1], finished=[0], after=3),
            {**standing[0], "num_waiting": 1, "waiting_order": [1]},
            *standing[1:],
        ],
    }


def overtaken():
    """Request 0 would need 4 of 3 blocks, and vLLM stands still until a more urgent one comes."""
    standing = {n: step(n, [], 3, [], [0]) for n in (0, 1, 3, 4)}
    served = step(2, [[1, 4]], 2, [1], [0], newly_admitted=[1], finished=[1], after=3)
    return {
        **preempting(),
        "name": "overtaken",
        "max_steps": 5,
        "config": {**SETTINGS, "policy": "priority"},
        "requests": [request(0, 13, 1, priority=1), request(1, 4, 1, arrival_step=2)],
        "steps": [standing[0], standing[1], served, standing[3], standing[4]],
    }


def extended(scenario):
    """The same in the second format."""
    return {**scenario, "format": "vllm-v1-scheduler-steps/2"}


def sharing():
    """Five usable blocks, prefix caching: all prompts but the last begin with the same block.

    Step 1: request 1 finds block 1, which request 0 holds, and its second block is its own. Then
    request 0 ends: block 3, not full, goes to the head of the free queue and block 2 behind it;
    request 1 holds block 1 still. Step 2: request 2 finds block 1, and block 2, which is free; for
    its 9th token it takes block 3. At the end the queue is 3, 5 (not full), 4, 2, 1.
    """
    return {
        **extended(preempting()),
        "name": "sharing",
        "config": {
            **SETTINGS,
            "max_num_batched_tokens": 16,
            "num_blocks": 6,
            "enable_prefix_caching": True,
            "async_scheduling": False,
        },
        "requests": [
            request(0, 9, 2, hash_ids=[7, 8]),
            request(1, 9, 2, arrival_step=1, hash_ids=[7, 9]),
            request(2, 9, 1, arrival_step=2, hash_ids=[7, 8, 1]),  # the last one has no effect
            request(3, 4, 1, arrival_step=4, hash_ids=[8]),
        ],
        "steps": [
            step(0, [[0, 9]], 2, [0], newly_admitted=[0])
            | {"free_queue": [4, 5], "block_tables": [[0, [1, 2, 3]]]},
            step(1, [[0, 1], [1, 5]], 0, [0, 1], newly_admitted=[1], finished=[0], after=2)
            | {"free_queue": [], "block_tables": [[0, [1, 2, 3]], [1, [1, 4, 5]]]}
            | {"num_cached_tokens": [[1, 4]]},
            step(2, [[1, 1], [2, 1]], 0, [1, 2], newly_admitted=[2], finished=[1, 2], after=5)
            | {"free_queue": [], "block_tables": [[1, [1, 4, 5]], [2, [1, 2, 3]]]}
            | {"num_cached_tokens": [[2, 8]]},
            step(4, [[3, 4]], 4, [3], newly_admitted=[3], finished=[3], after=5)
            | {"free_queue": [5, -4, -2, -1], "block_tables": [[3, [3]]]},
        ],
        "summary": {
            "steps": 4,
            "last_step": 4,
            "finished": 4,
            "preemptions": 0,
            "max_preemptions_of_one": 0,
            "scheduled_tokens": 9 + 1 + 5 + 1 + 1 + 4,
            "cached_tokens": 4 + 8,
            "cached_tokens_of_resumed": 0,
            "max_running": 2,
            "min_free_blocks": 0,
            "events": {"hit_in_use": 2, "hit_freed": 1},
        },
    }


def ahead():
    """As `preempting`, with prefix caching and asynchronous scheduling; request 0 wants 5 tokens.

    Request 1 gives back its block in step 1, while its first token is on the way: in step 2 it
    wants 5 tokens, of which 4 are in block 2, so two of the free blocks, but one is free. The last
    token of request 0 is on the way in step 5, which is empty; its blocks are free from step 6 on,
    block 3 ahead of block 1, both behind block 2. Request 1 finds block 2 and takes block 3.
    """
    waiting = {"free_queue": [-2], "block_tables": [[0, [1, 3]]]}
    resumed = {"free_queue": [-1], "block_tables": [[1, [2, 3]]]}
    return {
        **extended(preempting()),
        "name": "ahead",
        "config": {**SETTINGS, "enable_prefix_caching": True, "async_scheduling": True},
        "requests": [request(0, 4, 5), request(1, 4, 3)],
        "steps": [
            step(0, [[0, 4], [1, 4]], 1, [0, 1], newly_admitted=[0, 1])
            | {"free_queue": [3], "block_tables": [[0, [1]], [1, [2]]]},
            step(1, [[0, 1]], 1, [0], [1], preempted=[1]) | waiting,
            step(2, [[0, 1]], 1, [0], [1]) | waiting,
            step(3, [[0, 1]], 1, [0], [1]) | waiting,
            step(4, [[0, 1]], 1, [0], [1]) | waiting,
            step(5, [], 1, [0], [1], finished=[0], after=3) | waiting,
            step(6, [[1, 1]], 1, [1], resumed=[1], num_cached_tokens=[[1, 4]]) | resumed,
            step(7, [[1, 1]], 1, [1]) | resumed,
            step(8, [], 1, [1], finished=[1], after=3) | resumed,
        ],
        "summary": {
            "steps": 9,
            "last_step": 8,
            "finished": 2,
            "preemptions": 1,
            "max_preemptions_of_one": 1,
            "scheduled_tokens": 4 + 4 + 4 + 1 + 1,
            "cached_tokens": 4,
            "cached_tokens_of_resumed": 4,
            "max_running": 2,
            "min_free_blocks": 1,
            "events": {
                "self_preempted": 1,
                "victim_in_flight": 1,
                "resumed_with_hit": 1,
                "hit_freed": 1,
                "evicted_blocks": 1,
                "empty_step": 2,
                "skipped_last_in_flight": 2,
            },
        },
    }


def write(scenario, path):
    path.write_text(json.dumps(scenario))
    return path
