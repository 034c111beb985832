package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/session"
)

// CancelAll implements [session.BatchCanceller], in one round trip. About a session whose row is locked or whose end is
// stored it decides nothing. Waits for events are those of [Store.Cancel]; one that takes too long is the error of all.
func (s *Store) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	rows := make([][]storeflow.Judged, len(all))
	var steps []step
	for _, i := range inEndOrder(all) {
		statement, arguments, err := s.cancelStatement(all[i].Judged, all[i].Request)
		if err != nil {
			return nil, err
		}
		steps = append(steps, reading(s, &rows[i], scanJudged, statement, arguments...))
	}
	err := s.write(ctx, fmt.Sprintf("cancel %d sessions in", len(all)), func(ctx context.Context) error {
		return s.together(ctx, steps...)
	})
	if err != nil {
		return nil, err
	}
	outcomes := make([]session.Outcome, len(all))
	for i := range outcomes {
		outcomes[i], _ = rows[i][0].Outcome() // of a locked row it is empty
	}
	return outcomes, nil
}

// inEndOrder returns the places of the cancels by the IDs of their last events, the order in which every batch inserts
// events, so that two cannot deadlock. No row is waited for.
func inEndOrder(all []session.BatchedCancel) []int {
	places := make([]int, len(all))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return strings.Compare(endID(all[a]), endID(all[b])) })
	return places
}

func endID(c session.BatchedCancel) string {
	if len(c.Request.Events) == 0 {
		return ""
	}
	return storeflow.EndID(c.Request)
}
