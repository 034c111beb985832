// Package proctree starts a command, tracks its descendants, signals them, ends them, and proves that they are gone.
//
// # Linux
//
// A guard process starts the commands of a host. The guard is the host's own program, executed again; a package
// initializer turns it into the guard before main begins. The host starts a guard with the first command, and the guard
// ends with the host. The guard is a child subreaper, so all descendants of a command stay below it: if a daemon
// forks twice, calls setsid and clears its environment, it becomes the guard's child when its parents exit.
// When the host dies for any reason, its sockets close, and the guard kills the trees behind them. It is named wdguard,
// so that who kills all processes with the name of the host spares it: without it only the first process of each tree
// dies with the host.
//
// A mark tells which command an adopted process belongs to. The mark is the soft limit of RLIMIT_LOCKS: every
// descendant inherits it, programs have no reason to change it, and Linux stores it but has not enforced it since
// 2.4.25. To signal a process, the package opens its pidfd first and checks the process afterwards, so it never signals
// a reused PID. A tree is gone when the guard has reaped its first process and has no child with its mark. That is
// enough, because living descendants of dead processes are the guard's children.
//
// What is released is remembered by PID and start time, with all that is seen below it, until it is gone: a process
// that changed its limit would otherwise be taken for an orphan of the next command. The host still reaches it, without
// the guard: by its mark, and what had none by its PID and start time.
//
// What was rejected, and why:
//   - A process group alone: setsid leaves it, and once its leader is reaped the group ID can belong to somebody else.
//   - The host as the subreaper: this changes the whole host, which would adopt, and have to reap, unrelated orphans.
//   - PR_SET_PDEATHSIG alone: it reaches only the first process. The guard sets it in case the guard itself is killed.
//   - A mark in the environment: a child can clear it.
//   - Control groups: writing to them needs a delegation that most hosts do not have. Nor does one end by itself if
//     host and guard are killed at once: somebody who is left has to kill it.
//   - A PID namespace: it needs user namespaces, which are often disabled, and the command would see other PIDs.
//   - One guard per command: starting a Go program costs more than most commands.
//   - A separate guard program: a library cannot install one.
//
// The guard is the command's parent. The command gets the working directory, umask, descriptors, environment, nice
// value, CPUs and oom_score_adj that the host has when it calls Start. It inherits everything else from the guard:
// users, groups, capabilities, limits, namespaces, control group, root directory, session and so on. These are the
// profile of the host's calling thread. There is one guard for each profile, so the commands of a host that dropped its
// privileges do not get them back. A guard without commands ends after a minute, or after a second if the host's last
// command had another profile.
//
// A command that is started on behalf of another one, later and by whatever thread is at hand, never gets more than
// that one: see [Origin].
//
// A guard that is stopped, dies or has no free descriptors takes no more commands, and the next command gets a new one.
// A start waits until its context ends, and at most ten seconds. No lock is held while anything waits for a guard.
// Where the system refuses a call that ends processes, as a filter older than pidfd_open does, no command starts.
//
// The guard sleeps until there is a request, an order, the end of a process, or something due.
//
// # Elsewhere
//
// On other Unixes the command gets its own process group, and signals go to that group. A process that leaves the group
// by setsid or setpgid is not reached, and the commands of a host that dies live on. After the command has exited,
// its group can be killed only on systems with waitid (Darwin).
//
// On Windows a tree is a job object. The command is started suspended, put into the job and resumed, so all that it
// starts is in the job, and a process that asks to break away is refused. SIGKILL ends the job. Windows has no other
// signals: SIGINT and SIGTERM send a console break, CTRL_BREAK_EVENT, to the command's console process group, as long
// as the command itself runs and shares the host's console. It counts as one process. Everything else reaches nothing,
// which is a [MissedError]. Windows ends the job when its last handle is closed, so also when the host dies, whatever
// the reason; a release lifts that. The Windows part was run under Wine 10 for amd64, and is vetted for
// others; what is decided about a job is tested with a fake one everywhere.
//
// The package has no time limits and no grace periods: its caller decides when to signal.
package proctree
