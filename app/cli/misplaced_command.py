"""Names the full command in the error about a command without its group: `tables check` for `check`."""

from typing import Any

from typer.core import TyperGroup


class GroupWithHints(TyperGroup):
    """A group of commands. Its error about an unknown command names the subgroup that has the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the first argument names; fail with a hint if it belongs to a group."""
        wanted = args[0]
        if wanted not in self.commands:
            groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
            places = [repr(f"{name} {wanted}") for name, group in groups.items() if wanted in group.commands]
            if places:
                ctx.fail(f"No such command {wanted!r}. Did you mean {' or '.join(places)}?")
        return super().resolve_command(ctx, args)
