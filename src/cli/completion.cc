#include "cli/completion.h"

#include <vector>

namespace lockstep::cli {
namespace {

/// The command tree, flat: each command's path (" log dump") and what may follow it.
struct Level {
  std::string path;
  std::string words;
};

void Collect(const CLI::App& app, const std::string& path, const std::string& inherited,
             std::vector<Level>& levels) {
  std::string options = inherited;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) options += " --" + name;
  }
  Level level{path, options};
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) level.words += " " + command->get_name();
  levels.push_back(level);
  for (const CLI::App* command : commands) {
    Collect(*command, path + " " + command->get_name(), path.empty() ? options : inherited, levels);
  }
}

std::vector<Level> LevelsOf(const CLI::App& app) {
  std::vector<Level> levels;
  Collect(app, "", "", levels);
  for (Level& level : levels) level.words.erase(0, 1);
  return levels;
}

/// In bash and zsh alike: from the words before the cursor to the command, `at`, and from there to
/// what may follow, `may`. Not `path`, which is zsh's own.
std::string ShellBody(const std::vector<Level>& levels, const std::string& words_before) {
  std::string known;
  std::string cases;
  for (const Level& level : levels) {
    if (!level.path.empty()) known += (known.empty() ? "\"" : "|\"") + level.path + "\"";
    cases += "    \"" + level.path + "\") may=\"" + level.words + "\" ;;\n";
  }
  return "  local word at=\"\" may=\"\"\n"
         "  for word in \"" +
         words_before +
         "\"; do\n"
         "    case \"$at $word\" in\n      " +
         known +
         ") at=\"$at $word\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$at\" in\n" +
         cases + "  esac\n";
}

std::string Bash(const std::string& name, const std::vector<Level>& levels) {
  return "# bash completion of " + name + ": eval \"$(" + name + " completion bash)\"\n_" + name +
         "() {\n" + ShellBody(levels, "${COMP_WORDS[@]:1:COMP_CWORD-1}") +
         "  COMPREPLY=($(compgen -W \"$may\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\ncomplete -o default -F _" +
         name + " " + name + "\n";
}

std::string Zsh(const std::string& name, const std::vector<Level>& levels) {
  return "#compdef " + name + "\n# zsh completion of " + name + ", after compinit: eval \"$(" +
         name + " completion zsh)\"\n_" + name + "() {\n" +
         ShellBody(levels, "${(@)words[2,CURRENT-1]}") +
         "  compadd -- ${=may} || _files\n"
         "}\ncompdef _" +
         name + " " + name + "\n";
}

std::string Fish(const std::string& name, const std::vector<Level>& levels) {
  std::string known;
  std::string cases;
  for (const Level& level : levels) {
    if (!level.path.empty()) known += " '" + level.path + "'";
    cases += "    case '" + level.path + "'\n      string split ' ' -- '" + level.words + "'\n";
  }
  return "# fish completion of " + name + ": " + name + " completion fish | source\nfunction __" +
         name +
         "_may\n"
         "  set -l at ''\n"
         "  for word in (commandline -opc)[2..-1]\n"
         "    switch \"$at $word\"\n"
         "      case" +
         known +
         "\n"
         "        set at \"$at $word\"\n"
         "    end\n"
         "  end\n"
         "  switch \"$at\"\n" +
         cases + "  end\nend\ncomplete -c " + name + " -a '(__" + name + "_may)'\n";
}

}  // namespace

std::string Completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Level> levels = LevelsOf(app);
  if (shell == "zsh") return Zsh(app.get_name(), levels);
  if (shell == "fish") return Fish(app.get_name(), levels);
  return Bash(app.get_name(), levels);
}

}  // namespace lockstep::cli
