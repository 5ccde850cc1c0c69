// Leads through a sidecar, with nothing but the standard library.
//
//	TENURE_SIDECAR=http://127.0.0.1:8087 TENURE_TOKEN_FILE=/etc/tenure/token leader billing/close
//
// Run it on as many machines as you like: one of them works at a time. Every write carries the token, so that what
// the writes go to can refuse a leader of the past: its clock, and the operating system's mercy, are all that stops it here.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// candidacy is what the sidecar says of one: waiting, leading, lost or ended.
type candidacy struct {
	ID        string  `json:"id"`
	State     string  `json:"state"`
	Reason    string  `json:"reason"`
	Token     int64   `json:"token"`
	ValidForS float64 `json:"valid_for_s"`
	KeepS     float64 `json:"keep_s"`
	Error     string  `json:"error"`
	Detail    string  `json:"detail"`
}

type sidecar struct{ url, token string }

// ask sends a request, and returns the answer with the instant up to which it may be believed: counted from when it was
// sent, because how long the answer was on its way nobody knows.
func (s sidecar) ask(ctx context.Context, method, path string, body any) (candidacy, time.Time, error) {
	content := []byte{}
	if body != nil {
		content, _ = json.Marshal(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(content))
	if err != nil {
		return candidacy{}, time.Time{}, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	sent := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return candidacy{}, time.Time{}, err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return candidacy{}, time.Time{}, err
	}
	var found candidacy
	if err := json.Unmarshal(read, &found); err != nil {
		return found, time.Time{}, fmt.Errorf("%s: %w", answer.Status, err)
	}
	if answer.StatusCode >= 300 {
		return found, time.Time{}, fmt.Errorf("%s: %s: %s", answer.Status, found.Error, found.Detail)
	}
	return found, sent.Add(time.Duration(found.ValidForS * float64(time.Second))), nil
}

// lead stands once, and calls work again and again while the office is held. It returns when the tenure is over.
func (s sidecar) lead(ctx context.Context, election string, work func(token int64)) error {
	one, until, err := s.ask(ctx, "POST", "/v1/elections/"+election+"/candidacies", map[string]any{"keep_s": 5})
	if err != nil {
		return err
	}
	path := "/v1/candidacies/" + one.ID
	// Whatever happens: the work has ended when this returns, so the office need not wait for our deadline.
	defer func() {
		parting, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _, _ = s.ask(parting, "DELETE", path, nil)
	}()
	for one.State == "waiting" {
		if one, until, err = s.ask(ctx, "GET", path+"?wait_s=30", nil); err != nil {
			return err
		}
	}
	for one.State == "leading" && ctx.Err() == nil {
		// A third of the client's own time at the most: two heartbeats may be lost.
		next := time.Now().Add(time.Duration(one.KeepS / 3 * float64(time.Second)))
		for ctx.Err() == nil && time.Now().Before(next) && time.Now().Before(until) {
			work(one.Token)
		}
		beat, cancel := context.WithDeadline(ctx, until)
		found, fresh, err := s.ask(beat, "POST", path+"/heartbeat", nil)
		cancel()
		if err == nil {
			one, until = found, fresh
		} else if !time.Now().Before(until) {
			return err // Nobody said that we still lead, so we do not.
		}
	}
	if one.State == "leading" {
		return ctx.Err()
	}
	return fmt.Errorf("%s: %s", one.State, one.Reason)
}

func main() {
	token, err := os.ReadFile(os.Getenv("TENURE_TOKEN_FILE"))
	if err != nil || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: TENURE_SIDECAR=URL TENURE_TOKEN_FILE=FILE leader ELECTION")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	there := sidecar{os.Getenv("TENURE_SIDECAR"), strings.TrimSpace(string(token))}
	for ctx.Err() == nil {
		err := there.lead(ctx, os.Args[1], func(token int64) {
			fmt.Printf("works with token %d\n", token)
			time.Sleep(50 * time.Millisecond)
		})
		if ctx.Err() == nil {
			fmt.Println("stands again:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	fmt.Println("resigned")
}
