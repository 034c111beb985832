package sweep

import (
	"cmp"
	"math"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// An observed is a lease as the sweeper sees it. Instants are by the sweeper's clock.
type observed struct {
	session.Lease               // as it was seen last
	known         bool          // a new beat was seen, at livedAt
	livedAt       time.Duration //
	suspect       bool          // it is looked at until it turns out to live, or is dead and its sessions are taken
	due           time.Duration // when to read it, to look at it if it is a suspect, to expire it if it was judged
	looks         verdict.Looks
	died          bool // its death was counted
	judged        bool // this sweeper has found it dead
	count         int  // by as many looks
	lost          bool // and its sessions are lost, too
	left          int  // sessions that named it when it was last expired
}

// endlessPromise is so long that nobody sees the end of it, and short enough to be added up.
const endlessPromise = watchdog.NoLimit / 16

// promise returns the lease's promise, at least the shortest that there is.
func (o *observed) promise() time.Duration {
	return min(max(o.Promise, session.ShortestPromise), endlessPromise)
}

// sees notes how the lease was found. One whose beat has not changed for long enough becomes a suspect. One that had
// expired and has not any more is of a database that was replaced by an older copy: nothing is known of it.
func (o *observed) sees(l session.Lease, now time.Duration) {
	lives, again := l.Beat != o.Beat && !l.Expired, o.Expired && !l.Expired
	o.Lease = l
	if again {
		o.died = false
		o.startAgain()
	}
	switch {
	case lives:
		o.startAgain()
		o.known, o.livedAt = true, now
		o.restAt(now)
	case !o.suspect && !o.finished() && (l.Expired || !o.known || now-o.livedAt >= verdict.SuspectAfter(o.promise())):
		o.suspectAt(now)
	}
}

// suspectAt has the lease looked at, from now on.
func (o *observed) suspectAt(now time.Duration) { o.suspect, o.due = true, now }

// restAt has the lease read only.
func (o *observed) restAt(now time.Duration) {
	o.suspect, o.due = false, now+verdict.SuspectAfter(o.promise())
}

// startAgain has the lease observed from the beginning, unless it has expired.
func (o *observed) startAgain() {
	o.looks = verdict.Looks{}
	o.judged = o.judged && o.Expired
	o.left = math.MaxInt
}

// finished reports whether there is nothing to learn of the lease: it has expired, and its sessions were taken out of
// it but for those that were locked.
func (o *observed) finished() bool { return o.Expired && o.judged && !o.suspect }

// looked notes a look at the lease, and reports whether it is dead.
func (o *observed) looked(look verdict.Look) (dead bool) {
	promise := o.promise()
	if o.due = look.Ended + promise; !look.Counts(promise) {
		o.due = max(look.Ended, look.Began+promise)
	}
	return o.looks.Add(promise, look)
}

// seemsDead reports whether looks at the lease found it not renewed for a promise. It may live all the same.
func (o *observed) seemsDead() bool { return o.suspect && o.looks.Lasted() >= o.promise() }

// attrs returns the lease for the log.
func (o *observed) attrs() []any {
	return []any{"lease", o.ID, "host", cmp.Or(o.Host, "unknown"), "promise", o.Promise, "beat", o.Beat}
}
