package sessiontest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var outboxRaceRules = []rule{
	{"of eight that claim at once no two have the same notice, and no notice is left",
		"each host of a fleet has its sender",
		func(e *env) {
			box := openOutbox(e, 0)
			for round := range rounds {
				contract.Part(fmt.Sprint("round ", round), func() { claimsAtOnce(box, round) })
			}
		}},
	{"of eight that put the same notices at once each is there once",
		"the sweepers of a fleet find the reason of an alert in the same second",
		func(e *env) {
			box, all := openOutbox(e, 0), alertsOf("alert-", 10)
			contract.StepsAtOnce(8, func(caller int) {
				own := slices.Clone(all)
				if caller%2 == 1 {
					slices.Reverse(own)
				}
				puts(box, own...)
			})
			sameNotices(claimNotices(box, 100, time.Hour), all)
		}},
	{"of eight that claim, delay and finish at once no two have the same try of a notice, and each is finished",
		"a delay tells by the number of the try whether another has claimed the notice since",
		func(e *env) {
			box, all := openOutbox(e, 0), alertsOf("try-", 40)
			puts(box, all...)
			d := deliveries{box: box, had: map[string]int{}, finished: map[string]bool{}, want: len(all)}
			contract.StepsAtOnce(8, d.deliver)
			claimsIDs(box)
		}},
}

// claimsAtOnce puts notices, and claims them from eight goroutines at once until nothing is due.
func claimsAtOnce(box outbox, round int) {
	const each = 5
	all := alertsOf(fmt.Sprintf("alert-%d-", round), 4*each)
	puts(box, all...)
	var mu sync.Mutex
	var claimed []session.Notice
	claim := func() int {
		some := claimNotices(box, each, time.Hour)
		mu.Lock()
		defer mu.Unlock()
		claimed = append(claimed, some...)
		return len(some)
	}
	contract.StepsAtOnce(8, func(int) { claim() })
	for n := 1; n > 0 && len(claimed) <= len(all); { // what was locked by one that then took fewer
		n = claim()
	}
	sameNotices(claimed, all)
}

// Deliveries are what several senders do with one outbox.
type deliveries struct {
	box  outbox
	want int // notices that were put

	mu       sync.Mutex
	had      map[string]int // a try of a notice, and who had it
	finished map[string]bool
}

// deliver claims for no time, so that others have the same notices, until all are finished.
func (d *deliveries) deliver(caller int) {
	for n := caller; !d.over(); n++ {
		for i, notice := range claimNotices(d.box, 3, 0) {
			d.note(notice, caller)
			switch (n + i) % 3 {
			case 0:
				delay(d.box, notice, 0)
			case 1:
				finishNotices(d.box, notice)
				d.finish(notice)
			}
		}
	}
}

func (d *deliveries) note(n session.Notice, caller int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	try := fmt.Sprintf("try %d of notice %s", n.Tries, n.ID)
	other, taken := d.had[try]
	require(!taken, "callers %d and %d have both %s", other, caller, try)
	d.had[try] = caller
}

func (d *deliveries) finish(n session.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished[n.ID] = true
}

func (d *deliveries) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.finished) == d.want
}
