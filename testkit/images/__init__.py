"""Penstock's images; and where no container registry is in reach, what stands in for it: Debian's
base image, and kind's node with the programs that run on it.
"""
