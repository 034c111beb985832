package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of the Standard Webhooks specification.
const (
	idHeader        = "webhook-id"
	timestampHeader = "webhook-timestamp"
	signatureHeader = "webhook-signature"
)

// signatureVersion begins a signature that is an HMAC-SHA256.
const signatureVersion = "v1,"

func sign(header http.Header, keys [][]byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set(idHeader, id)
	header.Set(timestampHeader, timestamp)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		signatures[i] = signatureVersion + base64.StdEncoding.EncodeToString(signature(key, id, timestamp, body))
	}
	header.Set(signatureHeader, strings.Join(signatures, " "))
}

func signature(key []byte, id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// headerID is the ID of a notice as the header has it. One of another writer may have a full stop, which would make
// two messages of one signature, or what no header can have: its digest stands for it.
func headerID(id string) string {
	if id != "" && !strings.ContainsFunc(id, notOfIDs) {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return "sha256_" + hex.EncodeToString(digest[:16])
}

func notOfIDs(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

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

// secretPrefix begins a secret in its usual form.
const secretPrefix = "whsec_"

// The lengths of a secret that the specification allows.
const leastSecret, mostSecret = 24, 64

// maxSecretFile limits what is read of a file of secrets.
const maxSecretFile = 64 << 10

// readKeys returns the keys of the config. No error has a part of a secret.
func (c Config) readKeys() ([][]byte, error) {
	secrets := c.Secrets
	if c.SecretFile != "" {
		more, err := readSecrets(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("read SecretFile: %w", err)
		}
		secrets = append(slices.Clip(secrets), more...)
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret, and what is not signed can be sent by anybody; " + makeSecret)
	}
	return keysOf(secrets)
}

const makeSecret = `make one with: echo "whsec_$(openssl rand -base64 32)"`

func keysOf(secrets []string) (keys [][]byte, err error) {
	for i, secret := range secrets {
		key, err := keyOf(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d of %d %w", i+1, len(secrets), err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func keyOf(secret string) ([]byte, error) {
	text := strings.TrimPrefix(strings.TrimSpace(secret), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.RawStdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return nil, errors.New("is no base64; " + makeSecret)
	case len(key) < leastSecret || len(key) > mostSecret:
		return nil, fmt.Errorf("has %d bytes, and %d to %d are allowed; %s", len(key), leastSecret, mostSecret, makeSecret)
	}
	return key, nil
}

// readSecrets reads the lines of a file that are not blank.
func readSecrets(path string) (secrets []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s has no line with a secret; %s", path, makeSecret)
	}
	return secrets, nil
}
