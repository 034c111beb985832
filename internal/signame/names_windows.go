package signame

import "syscall"

// Windows has a break of the console, by two names, and a kill.
var names = map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}
