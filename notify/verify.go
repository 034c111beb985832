package notify

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrUnverified is wrapped by [Verify] for a request that the secret did not sign, or not now.
var ErrUnverified = errors.New("the webhook is not verified")

// tolerance is how far the clock of a sender may be from the receiver's.
const tolerance = 5 * time.Minute

// Verify is for receivers: it returns the ID of a notice if one of the secrets signed the request, at most five minutes
// ago or ahead. The body is that of the request as it came, to the byte. The ID is the same each time that the notice
// is sent: a receiver that may not act twice remembers IDs. Otherwise the error wraps [ErrUnverified], or says which
// secret cannot be one. No error has a part of a secret.
func Verify(header http.Header, body []byte, secrets ...string) (id string, err error) {
	keys, err := keysOf(secrets)
	if err != nil {
		return "", err
	}
	id, timestamp := header.Get(idHeader), header.Get(timestampHeader)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	switch {
	case id == "" || err != nil:
		return "", fmt.Errorf("%w: it has no %s, or no %s in seconds", ErrUnverified, idHeader, timestampHeader)
	case time.Since(time.Unix(seconds, 0)).Abs() > tolerance:
		return "", fmt.Errorf("%w: it was signed more than %v ago or ahead; compare the clocks", ErrUnverified, tolerance)
	}
	for given := range strings.FieldsSeq(header.Get(signatureHeader)) {
		if isSignature(given, keys, id, timestamp, body) {
			return id, nil
		}
	}
	return "", fmt.Errorf("%w: no secret given here signed it; compare the secrets, and verify the body as it came",
		ErrUnverified)
}

func isSignature(given string, keys [][]byte, id, timestamp string, body []byte) bool {
	encoded, ok := strings.CutPrefix(given, signatureVersion)
	if !ok {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	for _, key := range keys {
		if hmac.Equal(decoded, signature(key, id, timestamp, body)) {
			return true
		}
	}
	return false
}
