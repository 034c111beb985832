package page

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// The defaults of a [Config].
const (
	DefaultTitle      = "Watchdog"
	DefaultRows       = 100
	DefaultMaxReaders = 64
)

// maxRows is the largest Rows, and how many live runs are watched for changes.
const maxRows = 1000

// A Config says what a page shows. [New] copies it.
type Config struct {
	// Sessions lists the sessions. It must be set. A store that is a [session.Store] besides, as those of this module
	// are, is also asked for single sessions and for the history of cancels.
	Sessions session.Lister
	// Events has the events of the runs, for their own pages. If it is a [event.LayerStore], or says with Unwrap
	// that there is one inside it, layers are shown too. Nil means that there are none to show.
	Events watchdog.EventStore
	// Sweeper is the sweeper of this process, nil for none. A [sweep.Sweeper] is one.
	Sweeper Sweeper
	// PassLog has the passes of that sweeper, nil for none.
	PassLog *PassLog
	// Title is the name of the page. Empty means [DefaultTitle].
	Title string
	// Rows is how many sessions the list has on a page, at most 1,000. Zero means [DefaultRows].
	Rows int
	// MaxReaders is how many readers the page keeps up to date at once. Others see it without updates until they reload
	// it. Zero means [DefaultMaxReaders].
	MaxReaders int
	// Hosts are the names under which the page is asked for, such as "watchdog.example.com" or "::1". Every other gets
	// 421 and nothing of a session, except for the address that the connection was made to. So a page in somebody's
	// browser cannot read this one, whose name was pointed at this address. The port does not count, upper case and a
	// dot at the end do not either, and X-Forwarded-Host is not read: a proxy in front has to pass the name on, or its
	// own. A name that is not ASCII is written as browsers send it, "xn--...". None means any name, which is right only
	// where something in front checks it, or asks people who they are.
	Hosts []string
	// Logger gets the errors of the stores, which no page shows. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Sweeper tells what it has done so far.
type Sweeper interface {
	Stats() sweep.Stats
}

// A Page is a handler. All methods are safe for concurrent use.
type Page struct {
	cfg   Config
	hosts hosts
	live  *live
}

// New makes a page. It wraps [watchdog.ErrInvalid] if the config cannot be used. It starts no goroutine and asks no
// store.
func New(cfg Config) (*Page, error) {
	switch {
	case cfg.Sessions == nil:
		return nil, fmt.Errorf("%w page config: set Sessions", watchdog.ErrInvalid)
	case cfg.Rows < 0 || cfg.Rows > maxRows:
		return nil, fmt.Errorf("%w page config: Rows is %d; use 1 to %d, or 0 for the default", watchdog.ErrInvalid,
			cfg.Rows, maxRows)
	case cfg.MaxReaders < 0:
		return nil, fmt.Errorf("%w page config: MaxReaders is %d; use at least 1, or 0 for the default",
			watchdog.ErrInvalid, cfg.MaxReaders)
	}
	hosts, err := newHosts(cfg.Hosts)
	if err != nil {
		return nil, err
	}
	cfg.Title = cmp.Or(cfg.Title, DefaultTitle)
	cfg.Rows = cmp.Or(cfg.Rows, DefaultRows)
	cfg.MaxReaders = cmp.Or(cfg.MaxReaders, DefaultMaxReaders)
	p := &Page{cfg: cfg, hosts: hosts}
	p.live = newLive(p)
	return p, nil
}

// Close ends the updates of all readers, and returns when no goroutine of the page is left. Pages are served as before,
// without updates. Close again does nothing.
func (p *Page) Close() error {
	p.live.close()
	return nil
}

func (p *Page) logger() *slog.Logger {
	if p.cfg.Logger != nil {
		return p.cfg.Logger
	}
	return slog.Default()
}

// asked asks the stores for something. One that panics, or does not heed its context, is one that fails.
func asked[T any](ctx context.Context, call func(ctx context.Context) (T, error)) (T, error) {
	return bounded.Within(ctx, watchdog.DefaultRecordTimeout, call)
}
