package phase_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// commands are the programs that this test binary can run as in a phase.
var commands = map[string]func() int{
	"speak": func() int {
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		return 0
	},
	"where": func() int {
		dir, _ := os.Getwd()
		fmt.Print(dir)
		return 0
	},
	"fail": func() int {
		fmt.Println("secret")
		return 7
	},
	"obey":   obey,
	"family": func() int { startChild(nil); return hang() },
	"leave":  func() int { startChild(nil); return 0 },
	"hang":   hang,
}

// obey ends successfully when it is interrupted.
func obey() int {
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt)
	fmt.Println("process", os.Getpid(), "waits")
	<-received
	return 0
}

// hang ignores interrupts and SIGTERM.
func hang() int {
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	fmt.Println("process", os.Getpid(), "waits")
	for {
		<-received
	}
}

// startChild starts a process that hangs and returns once it does.
func startChild(attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asCommand+"=hang")
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	var pid int
	fmt.Fscanf(out, "process %d waits", &pid)
	fmt.Println("process", pid, "waits")
}
