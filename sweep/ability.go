package sweep

import (
	"context"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A Finder finds stalled sessions, as the method of a [session.Store] does. The sweeper judges again what it returns,
// and only a session that is [session.Active] can be stalled: a host whose database cannot judge may return them all.
//
// If a finder, or else the canceller, has the methods ObserveLeases and ExpireLease of [session.Leases], the sweeper
// finds out which processes have died. It calls these beside the other methods.
type Finder interface {
	Stalled(ctx context.Context, q session.Query) (session.Page, error)
}

// A Canceller ends a session that is still as it was judged, as the method of a [session.Store] does.
//
// If it has more methods of a Store, the sweeper uses them: Claim before the [Config].StopHook, so that one sweeper
// calls the hook; Warn, so that sweepers of other processes see a warning; and Session, to look up what became of a
// cancel whose answer was lost. If it keeps [session.Starts], a run of a [ResumePolicy] is started whatever becomes of
// the sweeper that cancelled it; without, that sweeper calls Start once. If it is a [session.BatchCanceller], the
// sweeper cancels the sessions of a page together, and calls Cancel for those that were not decided; those for which it
// calls a [Config].StopHook or a [ResumePolicy] it cancels one after the other.
type Canceller interface {
	Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (session.Outcome, error)
}

// What a finder or a canceller may be able to do besides.
type (
	observer interface {
		ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error)
		ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error)
	}
	claimer interface {
		Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error)
	}
	warner interface {
		Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error)
	}
	appender interface {
		Append(ctx context.Context, events ...watchdog.Event) error
	}
	reader interface {
		Session(ctx context.Context, runID string) (session.Session, error)
	}
)

// abilities are nil where there is none.
type abilities struct {
	observer observer
	claimer  claimer
	warner   warner
	appender appender
	reader   reader
	batch    session.BatchCanceller
	starts   session.Starts
}

func abilitiesOf(finder Finder, canceller Canceller) abilities {
	return abilities{
		observer: firstAble[observer](finder, canceller),
		claimer:  firstAble[claimer](canceller),
		warner:   firstAble[warner](canceller),
		appender: firstAble[appender](canceller),
		reader:   firstAble[reader](canceller, finder),
		batch:    firstAble[session.BatchCanceller](canceller),
		starts:   firstAble[session.Starts](canceller),
	}
}

// firstAble returns the first value that has the methods, or nil.
func firstAble[T any](all ...any) (able T) {
	for _, one := range all {
		if able, ok := one.(T); ok {
			return able
		}
	}
	return able
}
