package phase

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// hangVariable makes this program the command that hangs.
const hangVariable = "AUTOSESSION_HANG"

// HangIfAsked does not return in a process that was started to hang: it ignores interrupts and waits until its parent
// has ended. Call it first in main.
func HangIfAsked() {
	if os.Getenv(hangVariable) == "" {
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	fmt.Printf("process %d hangs and ignores interrupts\n", os.Getpid())
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent { // on systems that do not kill it with its parent
			os.Exit(1)
		}
	}
}

// hangCommand returns the command that hangs: this program, started again.
func hangCommand(dir string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to hang in its place: %w", err)
	}
	cmd := exec.Command(self) //nolint:noctx // runTree takes the context
	cmd.Dir, cmd.Env = dir, append(os.Environ(), hangVariable+"=1")
	return cmd, nil
}
