package unwrap_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/unwrap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	store  interface{ Append() }
	lister interface{ List() }
	able   interface{ Select() int }
)

type plain struct{}

func (plain) Append() {}

type selects int

func (selects) Append()       {}
func (s selects) Select() int { return int(s) }

// An open one may be passed by, a closed one may not.
type (
	open   struct{ store }
	closed struct{ store }
)

func (o open) Unwrap() store { return o.store }
func (open) List()           {}

// An elsewhere has something else inside.
type elsewhere struct{ store }

func (e elsewhere) Unwrap() lister { return open(e) }

func TestTo(t *testing.T) {
	for sentence, test := range map[string]struct {
		store store
		want  int // 0 for none
	}{
		"no store":        {nil, 0},
		"one that cannot": {plain{}, 0},
		"one that can":    {selects(1), 1},
		"one inside":      {open{open{selects(2)}}, 2},
		"the first one": {struct {
			open
			able
		}{open{selects(3)}, selects(4)}, 4},
		"one inside that cannot":                 {open{plain{}}, 0},
		"one inside that is not to be passed by": {open{closed{selects(5)}}, 0},
		"nothing inside":                         {open{}, 0},
		"what is inside is of another kind":      {elsewhere{selects(6)}, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			found, ok := unwrap.To[able, store](test.store)
			require.Equal(t, test.want != 0, ok)
			if ok {
				require.Equal(t, test.want, found.Select())
			}
		})
	}
	t.Run("of a store that is known for something else", func(t *testing.T) {
		found, ok := unwrap.To[able, store](lister(open{selects(7)}))
		require.True(t, ok)
		require.Equal(t, 7, found.Select())
	})
}
