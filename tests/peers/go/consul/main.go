// A program on Consul's own client library that contends as its commands say. It stands for every Go program that a
// tenure candidate shares a lock with, and nothing of tenure is in it.
//
// Arguments: lock|session, key, ttl and lock-delay in seconds. A lock makes a session for each campaign, as the library
// does by itself; with session there is one for all of them. A lock-delay of 0 is the engine's own, 15 s. Where Consul
// is, and what we may do, is read from CONSUL_HTTP_ADDR and the other variables of its command line.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"tenure.example/peer/lines"
)

const askEvery = 2 * time.Millisecond

type peer struct {
	client  *api.Client
	options api.LockOptions
	lock    *api.Lock
	leaving *atomic.Bool
}

func main() {
	if len(os.Args) != 5 {
		lines.Check(fmt.Errorf("usage: %s lock|session KEY TTL_S LOCK_DELAY_S", os.Args[0]))
	}
	client, err := api.NewClient(api.DefaultConfig())
	lines.Check(err)
	p := &peer{client: client, options: api.LockOptions{
		Key: os.Args[2], SessionTTL: seconds(os.Args[3]).String(), LockDelay: seconds(os.Args[4]),
	}}
	switch os.Args[1] {
	case "lock":
	case "session":
		p.options.Session = p.keepSession()
	default:
		lines.Check(fmt.Errorf("%q is neither lock nor session", os.Args[1]))
	}
	lines.Serve(lines.Acts{
		"campaign": p.campaign,
		"resign":   p.resign,
		"observe":  p.observe,
		"time":     lines.Counted(p.time),
	})
}

func seconds(text string) time.Duration {
	number, err := strconv.ParseFloat(text, 64)
	lines.Check(err)
	return time.Duration(number * float64(time.Second))
}

// keepSession makes a session and keeps it alive. A session that ends ends the program: it holds nothing any more.
func (p *peer) keepSession() string {
	entry := &api.SessionEntry{Name: p.options.Key, TTL: p.options.SessionTTL, LockDelay: p.options.LockDelay}
	id, _, err := p.client.Session().Create(entry, nil)
	lines.Check(err)
	go func() {
		lines.Check(p.client.Session().RenewPeriodic(p.options.SessionTTL, id, nil, nil))
	}()
	return id
}

// campaign stands, and returns at once: "standing" and "leading" tell what comes of it.
func (p *peer) campaign(value string) error {
	lock, name, err := p.newLock(value)
	if err != nil {
		return err
	}
	leaving := &atomic.Bool{}
	p.lock, p.leaving = lock, leaving
	standing := make(chan struct{})
	go func() {
		p.waitForSession(name)
		lines.Say("standing", nil)
		close(standing)
	}()
	go func() {
		over, err := lock.Lock(nil)
		at := lines.Now()
		lines.Check(err)
		<-standing
		token, err := p.token()
		lines.Check(err)
		lines.SayAt(at, "leading", lines.Fields{"token": token})
		<-over
		if !leaving.Load() {
			lines.Lose()
		}
	}()
	return nil
}

func (p *peer) newLock(value string) (*api.Lock, string, error) {
	options := p.options
	options.Value = []byte(value)
	options.SessionName = fmt.Sprintf("%s %d", value, lines.Now())
	lock, err := p.client.LockOpts(&options)
	return lock, options.SessionName, err
}

// waitForSession returns once the session of a lock exists: Consul has no queue in which its candidate could be seen.
func (p *peer) waitForSession(name string) {
	for p.options.Session == "" {
		sessions, _, err := p.client.Session().List(nil)
		for _, session := range sessions {
			if err == nil && session.Name == name {
				return
			}
		}
		time.Sleep(askEvery)
	}
}

// token is the index at which the key was last written, and that was by us: we hold it.
func (p *peer) token() (uint64, error) {
	pair, _, err := p.client.KV().Get(p.options.Key, &api.QueryOptions{RequireConsistent: true})
	if err != nil {
		return 0, err
	}
	if pair == nil || pair.Session == "" {
		return 0, errors.New("the key is not held any more")
	}
	return pair.ModifyIndex, nil
}

func (p *peer) resign(string) error {
	p.leaving.Store(true)
	lines.Say("leaving", nil)
	if err := p.lock.Unlock(); err != nil {
		return err
	}
	lines.Say("left", nil)
	return nil
}

// observe says what value the key has while somebody holds it, now and at every change.
func (p *peer) observe(string) error {
	go func() {
		options := &api.QueryOptions{}
		for {
			pair, meta, err := p.client.KV().Get(p.options.Key, options)
			lines.Check(err)
			if pair != nil && pair.Session != "" {
				lines.Say("observed", lines.Fields{"value": string(pair.Value)})
			}
			options.WaitIndex = meta.LastIndex
		}
	}()
	return nil
}

// time locks and unlocks, and says how long each pair took.
func (p *peer) time(count int) error {
	lock, _, err := p.newLock("timed")
	if err != nil {
		return err
	}
	return lines.Time(count, func() error {
		if _, err := lock.Lock(nil); err != nil {
			return err
		}
		return lock.Unlock()
	})
}
