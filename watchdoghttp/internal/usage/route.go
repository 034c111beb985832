package usage

import (
	"net/http"
	"strings"
)

// An API is a family of model APIs with one wire format.
type API uint8

// The APIs whose usage is read. None is any other request.
const (
	None API = iota
	Anthropic
	Chat
	Responses
	Gemini
)

var apiNames = [...]string{"none", "Anthropic Messages", "OpenAI Chat Completions", "OpenAI Responses", "Gemini"}

// String returns the name of the API.
func (a API) String() string { return apiNames[a] }

// A Route is what the method and the path of a request say about it, on any host.
type Route struct {
	API API
	// Model is the one that the path names, or empty.
	Model string
	// Stream says that the path asks for a stream.
	Stream bool
	// Compacts says that the path is that of a call to compact a conversation.
	Compacts bool
	// Unread names a path of a model API that uses something up and is not read here. API is None then.
	Unread string
}

// unread are the ends of paths that are billed and not read: batches are answered much later, others have no usage that
// is known here.
var unread = []string{
	"/v1/complete", "/messages/batches", "/v1/completions", "/embeddings", "/v1/batches", "/audio/speech",
	"/audio/transcriptions", "/audio/translations", "/images/generations", "/images/edits", "/images/variations",
	"/v1/videos", "/realtime", "/invoke", "/invoke-with-response-stream", "/converse", "/converse-stream",
	":embedContent", ":batchEmbedContents", ":batchGenerateContent", ":predict", ":predictLongRunning",
	":streamRawPredict", ":rawPredict", ":generateAnswer", ":asyncBatchEmbedContent",
}

// RouteOf returns the route of a request, by its method and its decoded path. A path of the right form can still be
// another service's: [ReadCall] looks at the body.
func RouteOf(method, path string) Route {
	path = strings.TrimRight(path, "/")
	switch {
	case method != http.MethodPost:
		return Route{}
	case strings.HasSuffix(path, "/v1/messages"):
		return Route{API: Anthropic}
	case strings.HasSuffix(path, "/chat/completions"):
		return Route{API: Chat, Model: deployment(path)}
	case strings.HasSuffix(path, "/responses"):
		return Route{API: Responses, Model: deployment(path)}
	case strings.HasSuffix(path, "/responses/compact"):
		return Route{API: Responses, Model: deployment(path), Compacts: true}
	}
	name, verb, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	switch verb {
	case "generateContent":
		return Route{API: Gemini, Model: name}
	case "streamGenerateContent":
		return Route{API: Gemini, Model: name, Stream: true}
	}
	for _, end := range unread {
		if strings.HasSuffix(path, end) {
			return Route{Unread: strings.TrimLeft(end, "/:")}
		}
	}
	return Route{}
}

// deployment returns the name that a path in the style of Azure has for the model.
func deployment(path string) string {
	_, rest, found := strings.Cut(path, "/deployments/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
