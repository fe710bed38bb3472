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

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::vector<Level> levels;
  Collect(app, "", "", levels);
  const std::string name = app.get_name();
  std::string known;
  std::string cases;
  for (const Level& level : levels) {
    if (!level.path.empty()) known += (known.empty() ? "\"" : "|\"") + level.path + "\"";
    cases += "    \"" + level.path + "\") words=\"" + level.words.substr(1) + "\" ;;\n";
  }
  return "# bash completion of " + name + ": eval \"$(" + name + " completion bash)\"\n_" + name +
         "() {\n"
         "  local word path=\"\" words=\"\"\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$path $word\" in\n      " +
         known +
         ") path=\"$path $word\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path\" in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\ncomplete -o default -F _" +
         name + " " + name + "\n";
}

}  // namespace lockstep::cli
