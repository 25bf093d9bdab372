"""Tests of what an operator deploys: images, compose files, Helm chart, manifests, systemd units and SBOMs."""
