package phase

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// hangVariable, when it is set, makes this program the command that hangs.
const hangVariable = "AUTOSESSION_HANG"

// HangIfAsked does not return in a process that was started to hang: it ignores what asks a process to end, and waits for
// as long as the process that started it lives. The program calls it before anything else.
func HangIfAsked() {
	if os.Getenv(hangVariable) == "" {
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	fmt.Printf("process %d hangs and ignores interrupts\n", os.Getpid())
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent { // where nothing kills it with its parent
			os.Exit(1)
		}
	}
}

// hanging is the command that hangs: this program, started once more.
func hanging(dir string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to hang in its place: %w", err)
	}
	cmd := exec.Command(self) //nolint:noctx // the context is given to runTree
	cmd.Dir, cmd.Env = dir, append(os.Environ(), hangVariable+"=1")
	return cmd, nil
}
