package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// TestSpendDue protects the settle that reaches a bound exactly: it has the run looked at, and none before it does.
func TestSpendDue(t *testing.T) {
	for name, limit := range map[string]verdict.CountLimit{
		"a warning":   {Max: 10, WarnAt: []float64{0.6}},
		"the reserve": {Max: 10, Reserve: 4},
	} {
		t.Run(name, func(t *testing.T) {
			limit.Kind = verdict.KindRequests
			s := verdict.NewSpend([]verdict.CountLimit{limit}, false)
			one := verdict.Use{}
			one.Counts[verdict.KindRequests] = 1
			for n := range 6 {
				require.Negative(t, s.Admit(&one))
				require.Equal(t, n == 5, s.Settle(&one, &one), n)
			}
		})
	}
}
