package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"tenure.example/peer/lines"
)

// An office is what a peer contends for.
type office interface {
	take(ctx context.Context, value string) error
	leave(ctx context.Context) error
}

type election struct{ *concurrency.Election }

func (e election) take(ctx context.Context, value string) error { return e.Campaign(ctx, value) }
func (e election) leave(ctx context.Context) error              { return e.Resign(ctx) }

// A mutex has no value: its key is all that others see of it.
type mutex struct{ *concurrency.Mutex }

func (m mutex) take(ctx context.Context, _ string) error { return m.Lock(ctx) }
func (m mutex) leave(ctx context.Context) error          { return m.Unlock(ctx) }

type peer struct {
	session *concurrency.Session
	name    string
	office  office
	herd    *herd
	held    []*concurrency.Election
}

func newPeer(kind string, session *concurrency.Session, name string) (*peer, error) {
	p := &peer{session: session, name: name}
	switch kind {
	case "election":
		p.office = election{concurrency.NewElection(session, name)}
	case "mutex":
		p.office = mutex{concurrency.NewMutex(session, name)}
	default:
		return nil, fmt.Errorf("%q is neither election nor mutex", kind)
	}
	return p, nil
}

// campaign stands, and returns at once: "standing" and "leading" tell what comes of it.
func (p *peer) campaign(value string) error {
	ctx := context.Background()
	token, err := p.watchQueue(ctx)
	if err != nil {
		return err
	}
	go func() {
		lines.Check(p.office.take(ctx, value))
		lines.SayAt(lines.Now(), "leading", lines.Fields{"token": <-token})
	}()
	return nil
}

// watchQueue says "standing" once our own key is in the queue, and hands on the revision at which it was created.
func (p *peer) watchQueue(ctx context.Context) (<-chan int64, error) {
	key := fmt.Sprintf("%s/%x", p.name, p.session.Lease())
	ctx, stop := context.WithCancel(ctx)
	puts := p.session.Client().Watch(ctx, key, clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	// A put before the watch is in place would never be seen.
	if first := <-puts; first.Err() != nil || !first.Created {
		stop()
		return nil, fmt.Errorf("no watch on %s: %w", key, first.Err())
	}
	token := make(chan int64, 1)
	go func() {
		defer stop()
		for answer := range puts {
			for _, put := range answer.Events {
				lines.Say("standing", nil)
				token <- put.Kv.CreateRevision
				return
			}
		}
	}()
	return token, nil
}

func (p *peer) resign(string) error {
	lines.Say("leaving", nil)
	if err := p.office.leave(context.Background()); err != nil {
		return err
	}
	lines.Say("left", nil)
	return nil
}

func (p *peer) proclaim(value string) error {
	e, ok := p.office.(election)
	if !ok {
		return fmt.Errorf("a mutex proclaims nothing")
	}
	if err := e.Proclaim(context.Background(), value); err != nil {
		return err
	}
	lines.Say("proclaimed", nil)
	return nil
}

// observe says whom Observe sees in office, now and at every change.
func (p *peer) observe(string) error {
	seen := concurrency.NewElection(p.session, p.name).Observe(context.Background())
	go func() {
		for answer := range seen {
			lines.Say("observed", lines.Fields{"value": string(answer.Kvs[0].Value)})
		}
		lines.Check(fmt.Errorf("the observation has ended"))
	}()
	return nil
}
