// Package procid names the process that opens a hold, so that another can tell whether it is gone.
//
// The package looks at processes, signals none, and reads no database. Of a process of another machine or container it
// knows nothing, and on other systems than Linux and macOS of any other process.
package procid

import (
	"os"
	"sync"

	"github.com/seed62658d38/watchdog/internal/record"
)

// attached are the attaches of this process that have not ended, by their names.
var attached sync.Map

// self is this process. It is read once: a process keeps its ID and its start.
var self = sync.OnceValue(func() record.Opener {
	o := own()
	if o.Boot == "" { // no other process can tell
		o.Boot = record.NewWindow()
	}
	o.PID = record.Count(os.Getpid())
	o.Host, _ = os.Hostname()
	return o
})

// Attach names an attach of this process to a run, which lasts until [Detach]. The attempt is what a keeper counts, 0
// without one.
func Attach(attempt int) *record.Opener {
	o := self()
	o.Attempt, o.Attach = record.Count(attempt), record.NewWindow()
	attached.Store(o.Attach, nil)
	return &o
}

// Detach notes that an attach of this process has ended. It does nothing for nil.
func Detach(o *record.Opener) {
	if o != nil {
		attached.Delete(o.Attach)
	}
}

// Gone reports whether the opener of a hold is known to be gone, by another attach to the same run: if it was an
// earlier attempt, which a keeper counts as over; an attach of this process that has ended; or one of another process
// of this machine that has. It is false where that is not known, as for nil, of an event of an older version.
func Gone(opener, by *record.Opener) bool {
	if opener == nil || by == nil {
		return false
	}
	if _, lives := attached.Load(opener.Attach); lives {
		return false
	}
	switch {
	case opener.Attempt > 0 && opener.Attempt < by.Attempt:
		return true
	case opener.Boot != by.Boot:
		return false
	case opener.PID == by.PID:
		return true // an attach that has ended, or a process before this one
	}
	return ended(opener)
}
