"""Ten of a hundred devices take part in a round, drawn anew each time.

Only they train and upload, and share the uplink's bandwidth; they and those of the next round
receive the download. All others keep their state. The record of a round says who was asked and
whose upload was delivered.
"""

import mix2fld

grid = mix2fld.Grid.of(
    protocols=("fl8", "mix2fld"),
    devices=100,
    participants=10,
    samples_per_device=100,
    local_steps=200,
    server_steps=200,
    seed_samples=10,
    inverse_samples=10,
    rounds=4,
    test_samples=1000,
)
for result in mix2fld.run(grid):
    for info in result.rounds:
        print(
            f"{result.summary['protocol']}: asked {info['asked']}, "
            f"delivered {info['uploads']['devices']}, server {info['scores']['global']}"
        )
