#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "coordinator/types.h"
#include "server/audit_log.h"
#include "server/policy.h"
#include "server/refused.h"

namespace lockstep::server {

/// What an RPC asks of its caller.
enum class Access {
  kAnybody,   ///< Whom the policy knows, whatever he may.
  kClient,    ///< Who has an `allow` rule; the call then looks at what it names.
  kObserver,  ///< Role observer or operator.
  kOperator,
};
/// Of each RPC of lockstep.v1, by its bare name. None: there is no such RPC, so nobody may.
std::optional<Access> AccessOf(std::string_view method);

/// Who makes a call. Holds a place among his calls under way for as long as any copy lives.
struct Caller {
  PrincipalPtr principal;
  std::shared_ptr<const Policy> policy;  ///< That knows the principal. Null: none is configured.
  std::shared_ptr<void> place;
  std::string peer;  ///< gRPC's word for the other end; for the audit.

  coordinator::Owner owner() const { return {principal->name, principal->open_transactions}; }
  bool sees_all() const { return principal->unrestricted || principal->role != Role::kClient; }
};

// What the caller may, one question each; none: he may. A transaction of another's does not exist
// for who may not see it: the answer is the same whether it does.
std::optional<Refused> CheckMine(const Caller& caller, const GlobalTxnId& id);
std::optional<Refused> CheckVisible(const Caller& caller, const GlobalTxnId& id);
/// His own, or an operator's to abort.
std::optional<Refused> CheckMayAbort(const Caller& caller, const GlobalTxnId& id);
std::optional<Refused> CheckMayUse(const Caller& caller, const ClusterName& cluster);
std::optional<Refused> CheckMayWrite(const Caller& caller, const ClusterName& cluster,
                                     const txn::BranchWork& work);
std::optional<Refused> CheckMayEnlist(const Caller& caller, const ClusterName& cluster,
                                      const TransactionalId& id);
std::optional<Refused> CheckTimeout(const Caller& caller, Duration timeout);

/// Where calls come in: finds out who calls, and whether he may at all. Thread-safe but for Load
/// and Reload, which are one thread's.
class Gate {
 public:
  Gate();
  /// `audit` outlives it. Before the first call.
  void SetAudit(AuditLog* audit) { audit_ = audit; }

  /// The policy's file; empty: none, and everybody may everything. Blocking.
  std::vector<ConfigMistake> Load(std::string path);
  /// Reads it again if it has changed. Mistakes: the policy before goes on. Blocking.
  std::variant<bool, std::vector<ConfigMistake>> Reload();

  std::variant<Caller, Refused> Admit(std::string_view method,
                                      const grpc::CallbackServerContext& context);
  /// Before more is told or done in a stream: the policy may have changed.
  std::optional<Refused> StillAdmitted(std::string_view method, Caller& caller) const;
  /// The same for a further message of a client's, which counts as a call.
  std::optional<Refused> AdmitAgain(std::string_view method, Caller& caller) const;

  /// Into the audit log, if it was the policy that refused; of a flood of them, some.
  void NoteRefused(std::string_view method, const Refused& refused, const Caller* caller,
                   const std::string& peer);
  void Note(const Caller& caller, std::string what, const GlobalTxnId& id,
            std::string_view outcome);
  AuditLog* audit() const { return audit_; }

 private:
  std::variant<PrincipalPtr, Refused> Authenticate(
      const Policy& policy, const grpc::CallbackServerContext& context) const;
  std::shared_ptr<const Policy> policy() const;

  AuditLog* audit_ = nullptr;
  const PrincipalPtr everybody_;
  std::string path_;
  std::string stamp_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Policy> policy_;  // Guarded by mutex_. Null: none.
  Usage refused_;
  std::atomic<std::size_t> not_noted_{0};
};

}  // namespace lockstep::server
