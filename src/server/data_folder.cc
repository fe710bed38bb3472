#include "server/data_folder.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <filesystem>

namespace lockstep::server {

std::string_view VolatileName(std::uint64_t filesystem_type) {
  switch (filesystem_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    default:
      return {};
  }
}

Status CheckDataFolder(const std::string& path, std::string_view allowed) {
  // The folder is made later: where it will be is told by what is there above it.
  std::filesystem::path there = path;
  struct statfs found {};
  while (statfs(there.c_str(), &found) != 0) {
    if (!there.has_parent_path() || there == there.parent_path()) return {};  // Opening will tell.
    there = there.parent_path();
  }
  const std::string_view name = VolatileName(static_cast<std::uint64_t>(found.f_type));
  if (name.empty() || name == allowed) return {};
  const std::string why = name == "tmpfs" ? "is memory: a restart of the machine loses it"
                                          : "looks like a container's own layer: it goes with the "
                                            "container";
  return MakeError(Code::kFailedPrecondition,
                   "data_dir " + path + " " + why +
                       ", and with it every decision. Put it on a volume or a disk; to lose it on "
                       "purpose, say allow_data_dir_on: " +
                       std::string(name));
}

}  // namespace lockstep::server
