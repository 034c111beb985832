package usage

import (
	"strings"
	"sync"
)

// A slot says what stands at a place of a response. The counts come first.
type slot uint8

const (
	slotInput slot = iota
	slotCacheWrite
	slotCacheWrite5m
	slotCacheWrite1h
	slotCacheRead
	slotToolInput
	slotOutput
	slotThoughts  // output that is not in slotOutput
	slotReasoning // output that is in slotOutput
	slotTotal
	slotInputImage
	slotInputAudio
	slotOutputImage
	slotOutputAudio
	countSlots

	slotModel
	slotTier
	slotSpeed
	slotState // what the response or the event is: whether all is over
	slotStop  // why the model stopped
	slotCut   // why an answer ended, where that does not say that all is over
	slotText  // what is read by its name
	textSlots

	slotOther // what is read by its name, and is no text
)

// A place is a path in the JSON of a response. In it, brackets are each element of an array, and a star is each other
// key.
type place struct {
	path string
	slot slot
}

// An apiPlaces has the places of an API's responses and events, and the tree of them. Of two places of one slot that
// are both there the later one counts.
type apiPlaces struct {
	places []place
	root   *node
}

// placesOf returns those of an API. They are made when a response is read first, as the tables of requests are.
func placesOf(api API) *apiPlaces {
	return allPlaces()[api]
}

var allPlaces = sync.OnceValue(func() []*apiPlaces {
	all := make([]*apiPlaces, Gemini+1)
	for api, places := range map[API][]place{
		Anthropic: anthropicPlaces(), Chat: chatPlaces(), Responses: responsesPlaces(), Gemini: geminiPlaces(),
	} {
		all[api] = &apiPlaces{places, tree(places)}
	}
	all[Gemini].root.elem = all[Gemini].root // a stream is many, as events or as the elements of an array
	return all
})

// within returns the places inside of that one.
func within(outer string, places ...place) (inner []place) {
	for _, p := range places {
		inner = append(inner, place{outer + "." + p.path, p.slot})
	}
	return inner
}

// anthropicPlaces are those of a message, and of the events message_start, which has one, and message_delta.
func anthropicPlaces() []place {
	usage := append(within("usage", []place{
		{"input_tokens", slotInput}, {"cache_creation_input_tokens", slotCacheWrite},
		{"cache_creation.ephemeral_5m_input_tokens", slotCacheWrite5m},
		{"cache_creation.ephemeral_1h_input_tokens", slotCacheWrite1h},
		{"cache_read_input_tokens", slotCacheRead}, {"output_tokens", slotOutput},
		{"output_tokens_details.thinking_tokens", slotReasoning}, {"service_tier", slotTier}, {"speed", slotSpeed},
		{"server_tool_use.*", slotOther}, {"iterations[].type", slotText}, {"iterations[].input_tokens", slotOther},
		{"iterations[].cache_creation_input_tokens", slotOther},
		{"iterations[].cache_read_input_tokens", slotOther}, {"iterations[].output_tokens", slotOther},
	}...), place{"model", slotModel},
		place{"context_management.applied_edits[].cleared_input_tokens", slotOther})
	places := append(usage, within("message", usage...)...)
	return append(places, place{"stop_reason", slotStop}, place{"delta.stop_reason", slotStop})
}

// chatPlaces are those of a completion, and of its chunks.
func chatPlaces() []place {
	return append(openAIUsage("prompt_tokens", "completion_tokens"), []place{
		{"usage.server_tool_use.*", slotOther}, {"model", slotModel}, {"service_tier", slotTier},
		{"choices[].finish_reason", slotCut},
	}...)
}

// responsesPlaces are those of a response, and of the events that have one.
func responsesPlaces() []place {
	response := append(openAIUsage("input_tokens", "output_tokens"), []place{
		{"model", slotModel}, {"service_tier", slotTier}, {"status", slotState}, {"incomplete_details.reason", slotCut},
		{"output[].type", slotText},
	}...)
	places := append([]place{{"object", slotState}, {"type", slotState}}, response...)
	return append(places, within("response", response...)...)
}

// openAIUsage has the places of a usage, in which input and output have those names.
func openAIUsage(input, output string) []place {
	return within("usage", []place{
		{input, slotInput}, {output, slotOutput}, {"total_tokens", slotTotal},
		{input + "_details.cached_tokens", slotCacheRead}, {input + "_details.cache_write_tokens", slotCacheWrite},
		{input + "_details.audio_tokens", slotInputAudio}, {input + "_details.image_tokens", slotInputImage},
		{output + "_details.reasoning_tokens", slotReasoning},
		{output + "_details.audio_tokens", slotOutputAudio}, {output + "_details.image_tokens", slotOutputImage},
	}...)
}

// geminiPlaces are those of a response, of which a stream has many.
func geminiPlaces() []place {
	places := []place{
		{"modelVersion", slotModel}, {"candidates[].finishReason", slotCut},
		{"candidates[].groundingMetadata.webSearchQueries[]", slotOther},
		{"usageMetadata.promptTokenCount", slotInput},
		{"usageMetadata.cachedContentTokenCount", slotCacheRead}, {"usageMetadata.toolUsePromptTokenCount", slotToolInput},
		{"usageMetadata.candidatesTokenCount", slotOutput}, {"usageMetadata.thoughtsTokenCount", slotThoughts},
		{"usageMetadata.totalTokenCount", slotTotal}, {"usageMetadata.trafficType", slotTier},
		{"usageMetadata.serviceTier", slotTier},
	}
	for _, details := range modalityDetails {
		detail := "usageMetadata." + details + "[]"
		places = append(places, place{detail + ".modality", slotText}, place{detail + ".tokenCount", slotOther})
	}
	return places
}

// A node is a place in the JSON of a response whose value is kept, and what is in it.
type node struct {
	keys  map[string]*node // of an object
	other *node            // of an object: each key that is not in keys
	elem  *node            // of an array: each element
	text  bool             // a string here is kept
}

// follows reports whether something is kept of an array, or of an object, at the place.
func (n *node) follows(array bool) bool {
	if n == nil || array {
		return n != nil && n.elem != nil
	}
	return n.keys != nil || n.other != nil
}

// child returns the place of a key, nil if that is not kept.
func (n *node) child(key string) *node {
	if known := n.keys[key]; known != nil {
		return known
	}
	return n.other
}

func tree(places []place) *node {
	root := new(node)
	for _, p := range places {
		at := root
		for step := range strings.SplitSeq(strings.ReplaceAll(p.path, "[]", ".[]"), ".") {
			at = at.step(step)
		}
		at.text = p.slot > countSlots && p.slot < textSlots
	}
	return root
}

// step returns the place one step further, and makes it if there is none.
func (n *node) step(step string) *node {
	next := &n.elem
	switch {
	case step == "*":
		next = &n.other
	case step != "[]":
		if n.keys == nil {
			n.keys = map[string]*node{}
		}
		if n.keys[step] == nil {
			n.keys[step] = new(node)
		}
		return n.keys[step]
	}
	if *next == nil {
		*next = new(node)
	}
	return *next
}
