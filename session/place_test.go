package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

func TestPlace(t *testing.T) {
	t.Run("is read as it was written", func(t *testing.T) {
		for _, p := range []session.Place{{}, {Due: -1, RunID: "a b"}, {Due: 1 << 60, RunID: " "}, {Due: 5}} {
			got, err := session.ParsePlace(p.String())
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	})
	t.Run("without a text is before all others", func(t *testing.T) {
		first, err := session.ParsePlace("")
		require.NoError(t, err)
		require.Negative(t, first.Compare(session.Place{Due: -1 << 62}))
	})
	t.Run("in another form is an error", func(t *testing.T) {
		for _, text := range []string{"12", " run", "x run", "run 12", "99999999999999999999 run"} {
			_, err := session.ParsePlace(text)
			require.ErrorContains(t, err, "is not the end of a page")
		}
	})
}

func FuzzParsePlace(f *testing.F) {
	f.Add("12 run")
	f.Add("-1  ")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := session.ParsePlace(text)
		if err != nil {
			return
		}
		if again, err := session.ParsePlace(p.String()); err != nil || again != p {
			t.Fatalf("%q is read as %v, and that as %v, %v", text, p, again, err)
		}
	})
}
