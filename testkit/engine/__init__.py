"""The container engine (docker or podman), and how its builds reach the package registries."""
