#!/usr/bin/env python3
"""The GPU of this machine, asked through the driver's own library.

  card.py DEVICE    DEVICE is cuda, cuda:N, or sim:MACHINE as a stand-in;
                    exit status 1, with the reason, if there is none
"""
import ctypes
import os
import sys

ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_SMS = 75, 76, 16
# The simulated machine that is nearest to a compute capability.
NEAREST = ((75, "t4"), (80, "a100"), (86, "a10"), (89, "l4"), (90, "h100"),
           (100, "b200"))
SIMULATED = {"t4": 75, "a100": 80, "a10": 86, "l4": 89, "h100": 90,
             "h200": 90, "b200": 100}


class NoCard(Exception):
    pass


class Card:
    """name, cc (90), driver (13000), memory (bytes), machine ("h100")"""

    def __init__(self, name, cc, driver, memory):
        self.name, self.cc, self.driver, self.memory = (name, cc, driver,
                                                        memory)
        below = [m for least, m in NEAREST if least <= cc]
        if not below:
            raise NoCard("%s has compute capability %.1f; 7.5 is the least"
                         % (name, cc / 10))
        self.machine = below[-1]
        if cc == 90 and "H200" in name:
            self.machine = "h200"

    def told(self):
        return "%s, compute capability %.1f, %.0f GiB, driver %d.%d" % (
            self.name, self.cc / 10, self.memory / 2 ** 30,
            self.driver // 1000, self.driver % 1000 // 10)


def library():
    given = os.environ.get("TDSL_LIBCUDA")
    for name in [given] if given else ["libcuda.so.1", "libcuda.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reason = str(error)
    raise NoCard(reason)


def find(device):
    if device.startswith("sim"):
        machine = (device.split(":") + ["h100"])[1]
        if machine not in SIMULATED:
            raise NoCard("no simulated machine is called " + machine)
        return Card("simulated " + machine, SIMULATED[machine], 13000,
                    80 << 30)
    cuda = library()

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code != 0:
            raise NoCard("%s gives %d" % (name, code))

    call("cuInit", 0)
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    ordinal = int((device.split(":") + ["0"])[1])
    if ordinal >= count.value:
        raise NoCard("%d devices" % count.value)
    number, version = ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(number), ordinal)
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, number)
    major, minor = ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(major), ATTRIBUTE_MAJOR, number)
    call("cuDeviceGetAttribute", ctypes.byref(minor), ATTRIBUTE_MINOR, number)
    memory = ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), number)
    call("cuDriverGetVersion", ctypes.byref(version))
    return Card(name.value.decode("utf-8", "replace"),
                major.value * 10 + minor.value, version.value, memory.value)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(find(sys.argv[1]).told())
    except (NoCard, ValueError, AttributeError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
