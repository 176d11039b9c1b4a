"""Three classes of devices: what they draw, and how long an SGD step takes."""

from mix2fld.config.presets.sourced import DeviceClass, Sourced, ours

_TR_45_820 = "3GPP TR 45.820, energy consumption of NB-CIoT"
_HUANG = "Huang et al., MobiSys 2012, LTE power model"
_PI = "Raspberry Pi 4B, measured by J. Geerling, pidramble.com/wiki/benchmarks/power-consumption"
_STEP = "671,000 multiply-adds of an SGD step of paper-cnn"

DEVICE_CLASSES: dict[str, DeviceClass] = {
    "sensor": DeviceClass(
        "sensor node: a microcontroller with a low-power modem",
        {
            "amplifier_efficiency": Sourced(0.44, f"{_TR_45_820}: 44 %"),
            "transmit_circuit_w": Sourced(0.09, f"{_TR_45_820}: 90 mW of circuitry"),
            "receive_w": Sourced(0.09, f"{_TR_45_820}: 90 mW"),
            "idle_w": Sourced(0.0024, f"{_TR_45_820}: 2.4 mW, clock running"),
            "computing_w": Sourced(
                0.0099, "Nordic nRF52840 product specification: 3.3 mA at 3 V, 64 MHz from flash"
            ),
            "device_step_us": ours(42_000.0, f"{_STEP}, 4 cycles each (Cortex-M4F), 64 MHz"),
            "battery_wh": Sourced(5.0, "3GPP TR 45.820, clause 5.4: 5 Wh"),
        },
    ),
    "phone": DeviceClass(
        "smartphone; the defaults of the config",
        {
            "amplifier_efficiency": ours(0.35, "of the order of handset amplifiers at full power"),
            "transmit_circuit_w": Sourced(1.288, f"{_HUANG}: beta = 1,288 mW"),
            "receive_w": Sourced(1.288, f"{_HUANG}: beta = 1,288 mW"),
            "idle_w": Sourced(
                0.031, f"{_HUANG}: 594 mW in 43 of 1,280 ms when idle, over a base of 11.4 mW"
            ),
            "computing_w": ours(2.5, "one large core at full load"),
            "device_step_us": ours(100.0, f"{_STEP}, 2.2 a cycle on one core of 3 GHz"),
            "battery_wh": Sourced(15.0, "Samsung Galaxy S23: 3,900 mAh at 3.85 V"),
        },
    ),
    "single-board": DeviceClass(
        "single-board computer with a radio module",
        {
            "amplifier_efficiency": ours(0.35, "as for the phone"),
            "transmit_circuit_w": Sourced(2.7, f"{_PI}: 540 mA at 5 V, the board awake"),
            "receive_w": Sourced(2.7, f"{_PI}: 540 mA at 5 V, the board awake"),
            "idle_w": Sourced(2.7, f"{_PI}: 540 mA at 5 V, idle"),
            "computing_w": Sourced(6.4, f"{_PI}: 1,280 mA at 5 V, four cores at full load"),
            "device_step_us": ours(450.0, f"{_STEP}, one a cycle on one core of 1.5 GHz"),
            "battery_wh": ours(37.0, "a power bank of 10,000 mAh at 3.7 V"),
        },
    ),
}
"""Every class by its name as a preset."""
