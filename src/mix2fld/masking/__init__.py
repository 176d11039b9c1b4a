"""Sums of which nobody sees a part: pairwise masks, and shares by which those of absent devices
are removed (Bonawitz et al., CCS 2017).

``shamir`` splits and joins secrets, ``keys`` agrees on masks, ``party`` is the device's half,
``collector`` the server's, ``in_memory`` all of it in one process.
"""
