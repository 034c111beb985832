//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Only tests change these.
var (
	// startBound is how long Start waits in all: for a new guard, and for the guard's answer.
	startBound = 10 * time.Second
	// idleBound is when a guard without commands ends.
	idleBound = time.Minute
	// otherIdleBound is idleBound of a guard that did not take the last command: the host may have dropped its profile.
	otherIdleBound = time.Second
)

// A guardPool holds the guards of the host, one for each profile. No lock is held while anything waits for a guard.
type guardPool struct {
	mu     sync.Mutex
	guards map[profile]*guardClient // those that take commands
	latest *guardClient             // took the last command
	timer  *time.Timer              // ends idle guards; nil before the first guard
	timed  time.Time                // when the timer fires; zero if it is not set
}

var theGuards = guardPool{guards: map[profile]*guardClient{}}

// startCommand asks a guard to start a command, and waits for its answer until ctx ends, and at most startBound. It
// uses another guard if the first one died before it took the request, has no free descriptors, or cannot give the
// command what the calling thread has now.
func (p *guardPool) startCommand(ctx context.Context, req *request, files []int) (*Tree, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, errNoAnswer)
	defer cancel()
	for attempt := 0; ; attempt++ {
		g, err := p.acquire(req)
		if err != nil {
			return nil, err
		}
		tree, err := g.startCommand(ctx, req, files)
		if err == nil {
			return tree, nil
		}
		p.release(g)
		var unfit *unfitError
		if attempt > 0 || !errors.As(err, &unfit) {
			return nil, err
		}
		p.retire(g)
	}
}

// acquire returns the guard for the calling thread. If there is none it begins to start one. The caller must release
// it. It returns an error if the command's processes could not be found.
func (p *guardPool) acquire(req *request) (*guardClient, error) {
	runtime.LockOSThread() // a profile belongs to a thread
	defer runtime.UnlockOSThread()
	c, err := readCaller()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkProc(c.status), checkNextNamespace(string(c.profile))); err != nil {
		return nil, err
	}
	if err := req.origin.check(c); err != nil {
		return nil, err
	}
	req.Umask, req.Scheduling = c.umask, &c.scheduling
	return p.acquireFor(c), nil
}

// acquireFor is acquire for a caller that was read on this thread, which is locked.
func (p *guardPool) acquireFor(c *caller) *guardClient {
	p.mu.Lock()
	g := p.guards[c.profile]
	if g != nil && g.unable() {
		p.remove(g)
		g = nil
	}
	isNew := g == nil
	if isNew {
		g = newGuardClient(p, c.profile)
		p.guards[c.profile] = g
	}
	g.users++
	if p.latest != g {
		p.latest = g
		p.endIdle()
	}
	p.mu.Unlock()
	if isNew {
		g.start(c)
	}
	return g
}

// retire makes sure that the guard gets no more commands. It ends with the last of its trees.
func (p *guardPool) retire(g *guardClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(g)
}

// remove is retire for a caller that holds the lock.
func (p *guardPool) remove(g *guardClient) {
	if p.guards[g.profile] == g {
		delete(p.guards, g.profile)
	}
	if p.latest == g {
		p.latest = nil
	}
	if g.users == 0 {
		g.end()
	}
}

// release says that one command or start less uses the guard.
func (p *guardPool) release(g *guardClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.users--
	if g.users > 0 {
		return
	}
	if p.guards[g.profile] != g {
		g.end()
		return
	}
	g.idleSince = time.Now()
	p.setTimer(g.idleSince.Add(p.idleBound(g)))
}

func (p *guardPool) idleBound(g *guardClient) time.Duration {
	if g == p.latest {
		return idleBound
	}
	return otherIdleBound
}

// endIdle ends the guards that have had no commands for long. The caller holds the lock.
func (p *guardPool) endIdle() {
	now := time.Now()
	var next time.Time
	for _, g := range p.guards {
		due := g.idleSince.Add(p.idleBound(g))
		switch {
		case g.users > 0:
		case !due.After(now):
			p.remove(g)
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	if !next.IsZero() {
		p.setTimer(next)
	}
}

// setTimer makes the timer fire at the time, or earlier if it is set already: then it is set again. So a host
// that runs one command after the other does not reset a timer for each.
func (p *guardPool) setTimer(at time.Time) {
	if !p.timed.IsZero() && !p.timed.After(at) {
		return
	}
	p.timed = at
	if p.timer != nil {
		p.timer.Reset(time.Until(at))
		return
	}
	p.timer = time.AfterFunc(time.Until(at), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timed = time.Time{}
		p.endIdle()
	})
}

var (
	// errNoAnswer is the cause of a context that ended because the guard did not answer in time.
	errNoAnswer = noAnswerWithin(startBound)
	// errGuardGone says that the guard died before it took a request.
	errGuardGone = &unfitError{"it is gone"}
)

func noAnswerWithin(bound time.Duration) error {
	return guardError("it did not answer within " + bound.String())
}

// A guardError is an ErrGuard for a reason. It is a type because package fmt, used for the first time, takes a while,
// and an initializer of this package runs before a guard is one.
type guardError string

func (e guardError) Error() string { return ErrGuard.Error() + ": " + string(e) }
func (e guardError) Unwrap() error { return ErrGuard }

// An unfitError says why a guard cannot start a command that another guard may be able to start.
type unfitError struct{ guardError }

// isGone reports whether the error of a socket says that the other process is gone.
func isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, errPeerClosed)
}

// Prepare begins to start the guard, so that the first command of a host that does something else before waits less
// for it. It does not wait, and can be called by a package initializer. What fails here fails again, with an error,
// where a command is started.
func Prepare() {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c, err := readCaller()
		if err != nil {
			return
		}
		theGuards.release(theGuards.acquireFor(c))
		// What a first command would do for all of them: how /proc is mounted is kept, and so are the types by package json.
		_ = checkProc(c.status)
		_, _ = (&request{Scheduling: &c.scheduling}).encode()
		_ = json.Unmarshal([]byte("{}"), new(report))
	}()
}
