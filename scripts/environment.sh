# shellcheck shell=bash
# The Python environment of the scripts; sourced by them, not run. Needs ROOT, the project's folder.
#
#   use_environment EXTRA [PYTHON]   makes or reuses the environment, installs the project with its
#                                    EXTRA ("", "dev" or others) where pyproject.toml or the versions in
#                                    constraints.txt have changed, and leaves the folder of its programs in BIN

# What the commands of the README need; shared, so that none of them has to install anything again.
# shellcheck disable=SC2034
ALL_EXTRAS=data,plan,plot,report
# What scripts/run needs for its table; the rest is for its report and the chart of the plan.
# shellcheck disable=SC2034
TABLE_EXTRAS=plan

# The versions that are installed; another file, or none where the variable is set but empty.
CONSTRAINTS=${BEASY_CONSTRAINTS-$ROOT/scripts/constraints.txt}

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# Is $1 a Python that works and is new enough? (A pyenv shim can be on the PATH and yet not work.)
is_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# Print the Pythons that the arguments name, one a line: programs, or versions such as 3.12.
find_pythons() {
  local name candidate
  for name in "$@"; do
    case $name in
      3.[0-9]*) name=python$name ;;
    esac
    for candidate in "$(command -v "$name")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/"$name"; do
      if [ -n "$candidate" ] && is_python "$candidate"; then
        echo "$candidate"
      fi
    done
  done
}

# Print the first Python that the arguments name.
find_python() {
  local first
  read -r first < <(find_pythons "$@") && echo "$first"
}

# Names of Pythons in order of preference.
DEFAULT_PYTHONS=(python3 3.13 3.12 3.11 3.10)

use_environment() {
  local extra=$1 wanted=${2:-} python venv
  if [ -n "${BEASY_VENV:-}" ]; then # an environment of the user, which is not changed
    BIN=$BEASY_VENV/bin
    is_python "$BIN/python" || fail "BEASY_VENV=$BEASY_VENV is not an environment with Python 3.10 or newer"
    return
  fi
  venv=$ROOT/.venv
  if [ -n "$wanted" ]; then
    python=$(find_python "$wanted") || fail "found no Python named '$wanted' of version 3.10 or newer"
    venv=$ROOT/.venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  fi
  BIN=$venv/bin
  make_venv "$venv" "$wanted"
  install_project "$venv" "$extra"
}

# Make the environment $1 with the first Python that can: of those that $2 names, or of all.
make_venv() {
  local venv=$1 wanted=$2 python output="" tried=() names=("${DEFAULT_PYTHONS[@]}")
  [ -z "$wanted" ] || names=("$wanted")
  is_python "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return
  while read -r python; do
    echo "Making $venv with $("$python" --version) ..." >&2
    # Where Debian has no python3-venv, this fails because ensurepip is missing.
    output+=$("$python" -m venv --clear "$venv" 2>&1) && return
    tried+=("$python")
  done < <(find_pythons "${names[@]}")
  [ ${#tried[@]} -gt 0 ] || fail "found no Python 3.10 or newer; name one: PYTHON=/path/to/python $0"
  echo "$output" >&2
  fail "${tried[*]}: cannot make a virtual environment (on Debian and Ubuntu: install python3-venv)"
}

install_project() {
  local venv=$1 extra=$2 stamp=$1/beasy-sched-installed now
  [ -z "$CONSTRAINTS" ] || [ -f "$CONSTRAINTS" ] || fail "BEASY_CONSTRAINTS=$CONSTRAINTS is not a file"
  now="$ROOT $(cat "$ROOT/pyproject.toml" ${CONSTRAINTS:+"$CONSTRAINTS"} | cksum)"
  if [ -f "$stamp" ]; then
    case $(cat "$stamp") in
      "$now $extra" | "$now dev") return ;;
      "$now $ALL_EXTRAS") [ "$extra" != "$TABLE_EXTRAS" ] || return 0 ;; # has more than these
      *" dev") extra=dev ;; # an environment that had the tools keeps them
      *" $ALL_EXTRAS") [ "$extra" != "$TABLE_EXTRAS" ] || extra=$ALL_EXTRAS ;;
    esac
  fi
  echo "Installing the project and its dependencies into $venv (once) ..." >&2
  # --use-pep517: without it, pip before 23.1 needs the package wheel to build pybatsim
  "$venv/bin/python" -m pip install --progress-bar off --no-compile --disable-pip-version-check --use-pep517 \
    ${CONSTRAINTS:+-c "$CONSTRAINTS"} -e "$ROOT${extra:+[$extra]}" | show_packages || installing_failed
  echo "$now $extra" >"$stamp"
  export BEASY_INSTALLATION_S=$SECONDS
  echo "Installed in $BEASY_INSTALLATION_S s." >&2
}

# Print what pip downloads and installs, a line for each package, without its other output.
show_packages() {
  local line
  while IFS= read -r line; do
    case $line in
      *.whl.metadata*) ;;
      *Installing\ build\ dependencies:*started) echo "  reading the project ..." >&2 ;;
      *Downloading\ *.whl* | *Using\ cached\ *.whl*)
        line=${line#*ing }
        line=${line#*cached }
        echo "  $(file_of "$line")" >&2
        ;;
      Installing\ collected\ packages:*) echo "  writing the packages ..." >&2 ;;
      Building\ *) echo "  building the project ..." >&2 ;;
    esac
  done
}

# Print "numpy 2.4.0 (16.8 MB)" of pip's "https://.../numpy-2.4.0-cp311-...whl (16.8 MB)".
file_of() {
  local file=${1%% (*} size=""
  case $1 in *" ("*) size=" (${1#* (}" ;; esac
  file=${file##*/}
  file=${file%%.whl*}
  local name=${file%%-*} rest=${file#*-}
  echo "$name ${rest%%-*}$size"
}

installing_failed() {
  echo "$(basename "$0"): installation failed, see pip's message above. If the package index cannot be reached," >&2
  echo "use an existing environment with BEASY_VENV=DIR. If a version of constraints.txt is not available," >&2
  fail "install the newest versions with BEASY_CONSTRAINTS= (empty). Then run this again"
}

# Make the environment with some extras, and run a Python script of this folder in it: run_script EXTRAS FILE [ARGUMENT ...]
run_script() {
  local file=$2
  use_environment "$1" "${PYTHON:-}"
  unset PYTHONPATH PYTHONHOME
  shift 2
  exec "$BIN/python" "$ROOT/scripts/$file" "$@"
}

# Make the environment, and hand over to a command of the program in it: hand_over COMMAND [ARGUMENT ...]
hand_over() {
  local word
  use_environment "${EXTRAS:-$ALL_EXTRAS}" "${PYTHON:-}"
  unset PYTHONPATH PYTHONHOME
  for word in "$@"; do
    if [ "$word" = --help ] || [ "$word" = -h ]; then
      "$BIN/python" -m beasy_sched "$1" --help
      [ -z "${EXTRAS:-}" ] || printf '\n%s\n' "--with-report first installs the packages of the HTML report and of the chart of the plan."
      printf '\n'
      printf '%s\n' "$(basename "$0") is 'beasy-sched $1' in its own environment. Variables: PYTHON names the Python for it;" \
        "BEASY_VENV=DIR uses a ready environment and installs nothing; BEASY_CONSTRAINTS=FILE names the versions" \
        "to install (default: scripts/constraints.txt; empty: the newest)."
      exit
    fi
  done
  exec "$BIN/python" -m beasy_sched "$@"
}
