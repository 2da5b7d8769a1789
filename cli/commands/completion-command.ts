/** `svc completion`: prints a script that lets a shell complete `svc` command lines. */
import { type CommandContext, runVerb } from '../command.ts';

/**
 * Each script calls `svc` with `SVC_COMPLETE` set to get the possible next words (`complete.ts`): each line has a word, a
 * tab and its meaning, or is `:file` or `:dir` for names on the disk.
 */
const SCRIPTS: Record<string, string> = {
  bash: `_svc_complete() {
  local line current
  local -a typed
  # COMP_WORDS is cut at colons too.
  read -ra typed <<<"\${COMP_LINE:0:COMP_POINT}"
  [[ \${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && typed+=('')
  current=\${typed[\${#typed[@]}-1]}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :file) while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current") ;;
      :dir) while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current") ;;
      *) COMPREPLY+=("\${line%%$'\\t'*}"); continue ;;
    esac
    compopt -o filenames 2>/dev/null
  done < <(SVC_COMPLETE=1 "$1" "\${typed[@]:1}" 2>/dev/null)
}
complete -F _svc_complete svc`,
  zsh: `_svc_complete() {
  local line word
  local -a found
  for line in "\${(@f)$(SVC_COMPLETE=1 "\${words[1]}" "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :file) _files ;;
      :dir) _files -/ ;;
      *) word=\${line%%$'\\t'*}; found+=("\${word//:/\\\\:}:\${line#*$'\\t'}") ;;
    esac
  done
  (( $#found )) && _describe -V svc found
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _svc_complete svc`,
  fish: `function __svc_complete
  set -l typed (commandline -opc)
  set -l current (commandline -ct)
  for line in (SVC_COMPLETE=1 $typed[1] $typed[2..-1] "$current" 2>/dev/null)
    switch $line
      case :file
        __fish_complete_path "$current"
      case :dir
        __fish_complete_directories "$current"
      case '*'
        echo $line
    end
  end
end
complete -c svc -f -a '(__svc_complete)'`,
};

export function completion(context: CommandContext): Promise<number> | Promise<void> {
  const { terminal } = context;
  const printed = Object.entries(SCRIPTS).map(([shell, script]) => {
    const print = async (): Promise<void> =>
      terminal.answer({ shell, script }, () => terminal.lines(script.split('\n')));
    return [shell, print];
  });
  return runVerb(context, Object.fromEntries(printed));
}
