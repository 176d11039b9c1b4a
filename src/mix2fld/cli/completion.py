"""``mix2fld completion``."""

from dataclasses import dataclass
from typing import Literal

import tyro


@dataclass(frozen=True)
class CompletionCommand:
    """Print the completion script of a shell, for commands, options and choices.

    Examples:
      eval "$(mix2fld completion bash)"                      in ~/.bashrc
      mix2fld completion zsh > "${fpath[1]}/_mix2fld"
      mix2fld completion fish > ~/.config/fish/completions/mix2fld.fish
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """Your shell."""

    def run(self) -> None:
        """Print the script."""
        from mix2fld.cli.commands import every_form

        arguments = ["--tyro-write-completion", self.shell, "-"]
        tyro.cli(every_form(), args=arguments, prog="mix2fld")
