"""Write deploy/grafana/dashboards/mirrorgate.json: `make dashboard`.

`gateway`, `processes` and `receivers` say what the dashboard shows, `panels` how Grafana stores it, and `__main__`
where each panel is. Grafana's editor can change a copy; the next run overwrites the file.
"""
