package watchdoghttp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func TestIsModelCall(t *testing.T) {
	for path, is := range map[string]bool{
		"/v1/messages": true, "/gateway/v1/chat/completions": true, "/v1/responses": true, "/v1/embeddings": true,
		"/v1beta/models/m:streamGenerateContent": true, "/v1/messages/count_tokens": false, "/v1/models": false, "/": false,
	} {
		assert.Equal(t, is, watchdoghttp.IsModelCall("POST", path), path)
		assert.False(t, watchdoghttp.IsModelCall("GET", path), path)
	}
}
