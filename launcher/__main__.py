"""The launcher's commands: `./onbeat run`, `up`, `test`, `services`, `probe`."""

import os
import sys

from launcher import env_file, folders, platform, probe, services, testing
from launcher.refusal import Refusal


def main(arguments: list[str]) -> int:
    command, *rest = arguments
    if command != "test":  # whose outcome must not depend on the settings of this machine's own installation
        env_file.load_into_environment(folders.ROOT / ".env")
    if command in ("run", "up") and rest:
        raise Refusal(f"`./onbeat {command}` takes no arguments, but got {' '.join(rest)!r}; use PORT and DATA_DIR.")
    match command:
        case "run":
            return platform.run()
        case "up":
            return platform.up()
        case "test":
            return testing.run(rest)
        case "services":
            return services.main(rest)
        case "probe":
            return probe.main(rest)
    raise Refusal(f"There is no launcher command {command!r}; `./onbeat help` lists them.")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(f"onbeat: {refusal}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
