package procid

import (
	"errors"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// own names the boot. The start is when the process first asked: nobody reads that of another process.
func own() (o record.Opener) {
	o.Boot, _ = syscall.Sysctl("kern.bootsessionuuid")
	o.Started = record.Number(time.Now().UnixMicro())
	return o
}

// ended reports whether no process has the PID. One that has it may be a later one.
func ended(o *record.Opener) bool {
	return o.PID > 0 && errors.Is(syscall.Kill(int(o.PID), 0), syscall.ESRCH)
}
