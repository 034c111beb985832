package watchdogadk

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// DefaultGrace is the default of [Limits].Grace.
const DefaultGrace = 10 * time.Second

// Config says how the calls of agents are guarded. The zero value bounds each call of a tool by half an hour.
type Config struct {
	// Tools bounds every tool but those that Tool names.
	Tools Limits
	// Tool has the limits of single tools by name. A field that is zero there is that of Tools.
	Tool map[string]Limits
	// Approval is how long a person may take to approve of a call. The run's wall clock stands still meanwhile. Zero
	// means a day; with [watchdog.None] nothing is held.
	Approval time.Duration
}

// Limits bound one call of a tool.
type Limits struct {
	// Limit is how long a call may take. Zero means half an hour, [watchdog.NoLimit] all that is left of the run.
	Limit time.Duration
	// Idle is how long a call may give no sign of life: a piece of a tool that streams, and the Alive of
	// idle.FromContext(ctx) in any other. Zero and [watchdog.NoLimit] mean no limit.
	Idle time.Duration
	// Grace is how long a call then has to return, before it is left behind. Zero means [DefaultGrace].
	Grace time.Duration
}

// A Guard guards the calls of one or more agents. It is safe for concurrent use.
type Guard struct {
	cfg  Config
	kept sync.Map // by run and name: holds for a person's answer, and directives that only the model has read
}

// New returns a guard. It copies cfg, but not its map.
func New(cfg Config) *Guard { return &Guard{cfg: cfg} }

// sayings are what directives say to the model, with their reason.
var sayings = map[watchdog.DirectiveKind]string{
	watchdog.DirectiveRetry:   "The last step took too long or was cut off (%s). Do it again, in smaller parts.",
	watchdog.DirectiveUnstuck: "You have not got further for a while (%s). Leave that and try another way.",
	watchdog.DirectiveWrapUp: "Only little is left of what this run may use (%s). Call no more tools: say now what is " +
		"done, what is not, and how to go on.",
}

// words polls the run for what it asks of the model by now. Again is the directive that has ended the call before, nil
// for none; Poll may return it only later, when its record was tried.
func (g *Guard) words(wd *watchdog.Watchdog, again *watchdog.Directive) (all []string) {
	if again != nil {
		all = append(all, fmt.Sprintf(sayings[again.Kind], again.Reason))
		g.kept.Store(wd.ID()+again.At.String(), nil)
	}
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		_, told := g.kept.LoadAndDelete(wd.ID() + d.At.String())
		if says := sayings[d.Kind]; says != "" && !told {
			all = append(all, fmt.Sprintf(says, d.Reason))
		}
	}
	return all
}

// ask holds the run for a call until that is made again. It fails for None, and where there is such a hold already.
func (g *Guard) ask(wd *watchdog.Watchdog, call string) {
	limit := watchdog.HoldLimit{Cap: cmp.Or(g.cfg.Approval, 24*time.Hour), PausesWallClock: true}
	if hold, err := wd.Hold(wd.Context(), fmt.Sprintf("approval %.64q", call), limit); err == nil && hold != nil {
		g.kept.Store(wd.ID()+call, hold)
		context.AfterFunc(wd.Context(), func() { g.kept.CompareAndDelete(wd.ID()+call, hold) })
	}
}
