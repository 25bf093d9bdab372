"""Write deploy/grafana/dashboards/mirrorgate.json: `make dashboard`.

`content` says what the dashboard shows, `panels` how Grafana stores it, and `layout` where each panel is. Grafana's
editor can change a copy; the next run overwrites the file.
"""
