// Package proctree starts a command, knows everything that descends from it, signals all of it, ends all of it, and proves that it is gone.
//
// # Linux
//
// The commands of a host are started by a guard: one small process, the host's own program executed again, which a package initializer turns into the guard
// before main begins. It is started with the first command and ends with the host. The guard is a subreaper, so that whatever a command starts stays below it:
// a daemon that forks twice, calls setsid and clears its environment becomes the guard's child when its parents have gone. When the host dies, however it
// dies, its sockets close, and the guard kills what they stood for.
//
// Which command an adopted process came from is told by a mark that every descendant inherits and that nothing has a reason to change: the soft limit of
// RLIMIT_LOCKS, which Linux keeps and has not heeded since 2.4.25. Signals go through pidfds that are opened first and verified afterwards, so that a number
// that was reused is never signalled. A tree is gone when its first process was waited for and the guard has no child with its mark: the living descendants of
// the dead are the guard's children.
//
// What was rejected, and why:
//   - A process group alone: setsid leaves it, and a group whose leader was waited for may be somebody else's.
//   - The host as the subreaper: that is a property of the whole host, which would inherit, and have to wait for, orphans of children that are not ours.
//   - PR_SET_PDEATHSIG alone: it reaches the first process only. The guard sets it for the case that the guard itself is killed.
//   - A mark in the environment: a child may clear it.
//   - Control groups: writing them needs a delegation that most hosts do not have.
//   - A PID namespace: it needs user namespaces, which are often switched off, and changes what the command sees.
//   - A guard for each command: starting a Go program costs more than most commands.
//   - A guard that is a program of its own: a library cannot install one.
//
// The command's parent is the guard. It gets the host's folder, umask, descriptors and environment as they are at its start. Everything else that it inherits
// (users, groups, capabilities, limits, priority, namespaces, control group, root folder, session) is the guard's. Before each start the calling thread's is
// compared with it: where they differ the old guard takes no more commands, and a new one is started, so that a host that dropped its privileges
// does not have them back in what it starts.
//
// # Elsewhere
//
// On other Unixes the command has a process group of its own, and that is what is signalled: what leaves the group by setsid or setpgid is not reached, nothing is
// ended with a host that dies, and after the command ended by itself its group can only be ended on systems with waitid (Darwin). On Windows only the command
// itself is ended, and every signal is a kill.
//
// The package knows no limits and no graces: when to signal is its caller's.
package proctree
