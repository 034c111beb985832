package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
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

// sign adds the three headers to a request.
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
