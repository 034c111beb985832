package watchdoghttp_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func TestAnsweredRace(t *testing.T) {
	t.Run("a header that comes as the limit is exceeded counts, or does not, but nobody disagrees", func(t *testing.T) {
		for range 2000 {
			synctest.Test(t, answerAtLimit)
		}
	})
}

// answerAtLimit lets the header come at the moment at which the timer decides, and the body be silent.
func answerAtLimit(t *testing.T) {
	began := time.Now()
	read, _ := io.Pipe()
	base := based(func(*http.Request) (*http.Response, error) {
		time.Sleep(silenceLimit + 1)
		return &http.Response{StatusCode: http.StatusOK, Body: read}, nil
	})
	resp, err := trip(t, &watchdoghttp.Transport{Base: base, Idle: silenceLimit})
	require.Equal(t, silenceLimit+1, time.Since(began))
	if err != nil {
		require.False(t, silenceOf(t, err).Answered)
		return
	}
	_, err = resp.Body.Read(make([]byte, 1))
	require.True(t, silenceOf(t, err).Answered)
	require.Equal(t, 2*(silenceLimit+1), time.Since(began))
}
