// How Go agents read a request, by encoding/json alone.
//
// `go-structs` decodes as a2a-go does: its structs, envelope by a Decoder (which stops behind the first document), params
// by Unmarshal. Names match whatever their case, and the last of two wins. `go-maps` is an agent that decodes into maps
// and looks for a member as written, then in snake_case, then in any case.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"sort"
	"strings"
)

type request struct {
	Door    string            `json:"door"`
	Method  string            `json:"method"`
	Target  string            `json:"target"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type reading struct {
	Operation  string   `json:"operation"`
	Task       *string  `json:"task"`
	Context    *string  `json:"context"`
	References []string `json:"references"`
	Tenants    []string `json:"tenants"`
	Pushes     []string `json:"pushes"`
	Config     *string  `json:"config"`
}

type answer struct {
	Seen []reading `json:"seen"`
	Why  string    `json:"why"`
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func list(items ...string) []string {
	found := []string{}
	for _, item := range items {
		if item != "" {
			found = append(found, item)
		}
	}
	return found
}

// --- structs -------------------------------------------------------------------------------------

type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
	ID      any             `json:"id"`
}

type message struct {
	ID         string         `json:"messageId"`
	ContextID  string         `json:"contextId,omitempty"`
	Extensions []string       `json:"extensions,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Parts      []any          `json:"parts"`
	References []string       `json:"referenceTaskIds,omitempty"`
	Role       any            `json:"role"`
	TaskID     string         `json:"taskId,omitempty"`
}

type pushConfig struct {
	Tenant string `json:"tenant,omitempty"`
	TaskID string `json:"taskId"`
	ID     string `json:"id,omitempty"`
	Token  string `json:"token,omitempty"`
	URL    string `json:"url"`
}

// A send of 0.1 (its `id` and `sessionId`), 0.2, 0.3 and 1.0. No two of them use one name for different things.
type sendParams struct {
	Tenant        string         `json:"tenant,omitempty"`
	ID            string         `json:"id,omitempty"`
	SessionID     string         `json:"sessionId,omitempty"`
	Push          *pushConfig    `json:"pushNotification,omitempty"`
	Message       *message       `json:"message"`
	Metadata      map[string]any `json:"metadata,omitempty"`
	Configuration *struct {
		Modes []string    `json:"acceptedOutputModes,omitempty"`
		New   *pushConfig `json:"taskPushNotificationConfig,omitempty"`
		Old   *pushConfig `json:"pushNotificationConfig,omitempty"`
	} `json:"configuration,omitempty"`
}

type byID struct {
	Tenant   string `json:"tenant,omitempty"`
	ID       string `json:"id"`
	ConfigID string `json:"pushNotificationConfigId,omitempty"`
}

type byTaskID struct {
	Tenant string `json:"tenant,omitempty"`
	TaskID string `json:"taskId"`
	ID     string `json:"id"`
}

type setParams struct {
	ID     string     `json:"id"` // 0.1
	TaskID string     `json:"taskId"`
	Config pushConfig `json:"pushNotificationConfig"`
}

type listParams struct {
	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"contextId,omitempty"`
}

type oldListParams struct { // a2a-go 0.3
	ContextID string `json:"context_id,omitempty"`
}

func readSend(operation string, raw []byte, isOld, isFirst bool) (reading, error) {
	var params sendParams
	if err := decode(raw, &params); err != nil {
		return reading{}, err
	}
	found := reading{Operation: operation, References: []string{}, Tenants: []string{}, Pushes: []string{}}
	if !isOld {
		found.Tenants = list(params.Tenant)
	}
	if params.Message != nil {
		found.References = append(found.References, params.Message.References...)
	}
	if isFirst {
		found.Task, found.Context = text(params.ID), text(params.SessionID)
		if params.Push != nil {
			found.Pushes = list(params.Push.URL)
		}
		return found, nil
	}
	if params.Message != nil {
		found.Task, found.Context = text(params.Message.TaskID), text(params.Message.ContextID)
	}
	if params.Configuration != nil {
		config := params.Configuration.New
		if isOld {
			config = params.Configuration.Old
		}
		if config != nil {
			found.Pushes = list(config.URL)
		}
	}
	return found, nil
}

func named(operation string, task, config string, tenants []string, pushes ...string) reading {
	return reading{operation, text(task), nil, []string{}, tenants, list(pushes...), text(config)}
}

func readByID(operation string) func([]byte) (reading, error) {
	return func(raw []byte) (reading, error) {
		var params byID
		err := decode(raw, &params)
		config := ""
		if operation == "push-get" || operation == "push-delete" {
			config = params.ConfigID
		}
		return named(operation, params.ID, config, list(params.Tenant)), err
	}
}

func readByTaskID(operation string) func([]byte) (reading, error) {
	return func(raw []byte) (reading, error) {
		var params byTaskID
		err := decode(raw, &params)
		if operation == "push-list" {
			params.ID = ""
		}
		return named(operation, params.TaskID, params.ID, list(params.Tenant)), err
	}
}

func readCreate(raw []byte) (reading, error) {
	var params pushConfig
	err := decode(raw, &params)
	return named("push-create", params.TaskID, params.ID, list(params.Tenant), params.URL), err
}

func readSet(raw []byte) (reading, error) {
	var params setParams
	err := decode(raw, &params)
	return named("push-create", params.TaskID, params.Config.ID, []string{}, params.Config.URL), err
}

func readFirstSet(raw []byte) (reading, error) {
	var params setParams
	err := decode(raw, &params)
	return named("push-create", params.ID, "", []string{}, params.Config.URL), err
}

func readList(raw []byte) (reading, error) {
	var params listParams
	err := decode(raw, &params)
	found := named("list", "", "", list(params.Tenant))
	found.Context = text(params.ContextID)
	return found, err
}

func readOldList(raw []byte) (reading, error) {
	var params oldListParams
	err := decode(raw, &params)
	found := named("list", "", "", []string{})
	found.Context = text(params.ContextID)
	return found, err
}

func readCard(raw []byte) (reading, error) {
	var params listParams
	if len(raw) > 0 {
		if err := decode(raw, &params); err != nil {
			return reading{}, err
		}
	}
	return named("extended-card", "", "", list(params.Tenant)), nil
}

func send(operation string, isOld, isFirst bool) func([]byte) (reading, error) {
	return func(raw []byte) (reading, error) { return readSend(operation, raw, isOld, isFirst) }
}

var methods = map[string]func([]byte) (reading, error){
	"SendMessage":                         send("send", false, false),
	"SendStreamingMessage":                send("send-stream", false, false),
	"GetTask":                             readByID("get"),
	"ListTasks":                           readList,
	"CancelTask":                          readByID("cancel"),
	"SubscribeToTask":                     readByID("subscribe"),
	"CreateTaskPushNotificationConfig":    readCreate,
	"GetTaskPushNotificationConfig":       readByTaskID("push-get"),
	"ListTaskPushNotificationConfigs":     readByTaskID("push-list"),
	"DeleteTaskPushNotificationConfig":    readByTaskID("push-delete"),
	"GetExtendedAgentCard":                readCard,
	"message/send":                        send("send", true, false),
	"message/stream":                      send("send-stream", true, false),
	"tasks/send":                          send("send", true, true),
	"tasks/sendSubscribe":                 send("send-stream", true, true),
	"tasks/get":                           readByID("get"),
	"tasks/list":                          readOldList,
	"tasks/cancel":                        readByID("cancel"),
	"tasks/resubscribe":                   readByID("subscribe"),
	"tasks/pushNotification/set":          readFirstSet,
	"tasks/pushNotification/get":          readByID("push-get"),
	"tasks/pushNotificationConfig/set":    readSet,
	"tasks/pushNotificationConfig/get":    readByID("push-get"),
	"tasks/pushNotificationConfig/list":   readByID("push-list"),
	"tasks/pushNotificationConfig/delete": readByID("push-delete"),
	"agent/getAuthenticatedExtendedCard":  readCard,
	"agent/authenticatedExtendedCard":     readCard,
}

func decode(raw []byte, into any) error {
	if len(raw) == 0 {
		raw = []byte("null")
	}
	return json.Unmarshal(raw, into)
}

func structs(method string, body []byte) (reading, error) {
	var call envelope
	if method != "POST" {
		return reading{}, fmt.Errorf("not a POST")
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&call); err != nil {
		return reading{}, err
	}
	switch call.ID.(type) {
	case nil, string, float64:
	default:
		return reading{}, fmt.Errorf("no id of JSON-RPC")
	}
	read := methods[call.Method]
	if call.JSONRPC != "2.0" || read == nil {
		return reading{}, fmt.Errorf("no such method")
	}
	return read(call.Params)
}

// --- maps ----------------------------------------------------------------------------------------

type object = map[string]any

// find looks a member up as written, in snake_case, and last in any case of either.
func find(in object, name string) any {
	snake := ""
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			snake += "_" + strings.ToLower(string(c))
		} else {
			snake += string(c)
		}
	}
	for _, spelt := range []string{name, snake} {
		if value := in[spelt]; value != nil {
			return value
		}
	}
	keys := make([]string, 0, len(in))
	for key := range in {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		if (strings.EqualFold(key, name) || strings.EqualFold(key, snake)) && in[key] != nil {
			return in[key]
		}
	}
	return nil
}

func in(holder object, name string) object {
	found, _ := find(holder, name).(object)
	return found
}

// word takes what is no string for text too, as fmt does.
func word(holder object, name string) string {
	switch value := find(holder, name).(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		return fmt.Sprint(value)
	}
}

func words(value any) []string {
	found := []string{}
	items, _ := value.([]any)
	for _, item := range items {
		found = append(found, fmt.Sprint(item))
	}
	return found
}

func maps(method string, body []byte) (reading, error) {
	var call object
	if method != "POST" {
		return reading{}, fmt.Errorf("not a POST")
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&call); err != nil {
		return reading{}, err
	}
	name := strings.TrimSpace(word(call, "method"))
	params := in(call, "params")
	if methods[name] == nil {
		return reading{}, fmt.Errorf("no such method")
	}
	found, err := methods[name]([]byte("{}"))
	if err != nil {
		return reading{}, err
	}
	isNew := 'A' <= name[0] && name[0] <= 'Z'
	if isNew {
		found.Tenants = list(word(params, "tenant"))
	}
	switch operation := found.Operation; {
	case operation == "send" || operation == "send-stream":
		sent := in(params, "message")
		found.References = words(find(sent, "referenceTaskIds"))
		if strings.HasPrefix(name, "tasks/") {
			found.Task, found.Context = text(word(params, "id")), text(word(params, "sessionId"))
			found.Pushes = list(word(in(params, "pushNotification"), "url"))
			break
		}
		config := "pushNotificationConfig"
		if isNew {
			config = "taskPushNotificationConfig"
		}
		found.Task, found.Context = text(word(sent, "taskId")), text(word(sent, "contextId"))
		found.Pushes = list(word(in(in(params, "configuration"), config), "url"))
	case operation == "list":
		found.Context = text(word(params, "contextId"))
	case operation == "push-create" && isNew:
		found.Task, found.Config = text(word(params, "taskId")), text(word(params, "id"))
		found.Pushes = list(word(params, "url"))
	case operation == "push-create":
		config := in(params, "pushNotificationConfig")
		task := "taskId"
		if name == "tasks/pushNotification/set" {
			task = "id"
		} else {
			found.Config = text(word(config, "id"))
		}
		found.Task, found.Pushes = text(word(params, task)), list(word(config, "url"))
	case isNew && strings.HasPrefix(operation, "push-"):
		found.Task = text(word(params, "taskId"))
		if operation != "push-list" {
			found.Config = text(word(params, "id"))
		}
	case operation != "extended-card":
		found.Task = text(word(params, "id"))
		if operation == "push-get" || operation == "push-delete" {
			found.Config = text(word(params, "pushNotificationConfigId"))
		}
	}
	return found, nil
}

// --- HTTP+JSON -----------------------------------------------------------------------------------

// rest routes as net/http does since Go 1.22: by escaped segments, each unescaped once. It reads 1.0 by structs.
func rest(method, target string, body []byte) (reading, error) {
	nowhere := fmt.Errorf("no such route")
	where, err := url.ParseRequestURI(target)
	if err != nil {
		return reading{}, err
	}
	query, err := url.ParseQuery(where.RawQuery)
	if err != nil {
		query = where.Query() // a handler that asks for one value does not look at the error
	}
	segments := strings.Split(strings.TrimPrefix(where.EscapedPath(), "/"), "/")
	for i, segment := range segments {
		if segments[i], err = url.PathUnescape(segment); err != nil {
			return reading{}, err
		}
		if segments[i] == "" || segments[i] == "." || segments[i] == ".." {
			return reading{}, nowhere
		}
	}
	if len(segments) == 1 {
		switch method + " " + segments[0] {
		case "POST message:send":
			return decodeSend("send", body)
		case "POST message:stream":
			return decodeSend("send-stream", body)
		case "GET tasks":
			found := named("list", "", "", []string{})
			found.Context = text(query.Get("contextId"))
			return found, nil
		case "GET extendedAgentCard":
			return named("extended-card", "", "", []string{}), nil
		}
	}
	if len(segments) < 2 || segments[0] != "tasks" {
		return reading{}, nowhere
	}
	task := segments[1]
	if len(segments) == 2 {
		cancelled, subscribed := strings.TrimSuffix(task, ":cancel"), strings.TrimSuffix(task, ":subscribe")
		switch {
		case method == "POST" && cancelled != task:
			return named("cancel", cancelled, "", []string{}), nil
		case (method == "POST" || method == "GET") && subscribed != task:
			return named("subscribe", subscribed, "", []string{}), nil
		case method == "GET":
			return named("get", task, "", []string{}), nil
		}
	}
	if len(segments) > 2 && segments[2] != "pushNotificationConfigs" {
		return reading{}, nowhere
	}
	switch fmt.Sprint(method, len(segments)) {
	case "POST3":
		var config pushConfig
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&config); err != nil {
			return reading{}, err
		}
		return named("push-create", task, config.ID, list(config.Tenant), config.URL), nil
	case "GET3":
		return named("push-list", task, "", []string{}), nil
	case "GET4":
		return named("push-get", task, segments[3], []string{}), nil
	case "DELETE4":
		return named("push-delete", task, segments[3], []string{}), nil
	}
	return reading{}, nowhere
}

func decodeSend(operation string, body []byte) (reading, error) {
	var raw json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&raw); err != nil {
		return reading{}, err
	}
	return readSend(operation, raw, false, false)
}

// --- lines ---------------------------------------------------------------------------------------

func told(found reading, err error) answer {
	if err != nil {
		return answer{[]reading{}, err.Error()}
	}
	return answer{[]reading{found}, ""}
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	fmt.Println("ready")
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		body, err := base64.StdEncoding.DecodeString(asked.Body)
		if err != nil {
			panic(err)
		}
		found := map[string]answer{}
		if asked.Door == "rpc" {
			found["go-structs"] = told(structs(asked.Method, body))
			found["go-maps"] = told(maps(asked.Method, body))
		} else {
			found["go-structs"] = told(rest(asked.Method, asked.Target, body))
		}
		if err := answers.Encode(found); err != nil {
			panic(err)
		}
	}
}
