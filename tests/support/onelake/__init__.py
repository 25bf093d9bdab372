"""Clients, fixtures and a strict reader for tests that need OneLake (`mirrorgate_zone.emulator`)."""
