package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// shopper makes the shop's life: visits, orders, and what staff do to them. All its choices come from one seed, as far as
// the shop's answers let them.
type shopper struct {
	shop      *shop
	variants  []string
	customers int

	// saleExists reports whether the ERP has an order's sale. It is asked just before an order is cancelled: only an order that the
	// ERP never had may be missing there afterwards.
	saleExists func(ctx context.Context, code string) (bool, error)

	mu   sync.Mutex
	rand *rand.Rand
	seen map[string]bool
	// open holds the ids of placed orders that nobody is working on. Work on one takes it out and puts it back.
	open []string
	// busy holds the customers who are in the shop: the same person in two visits at once would make two customers.
	busy map[int]bool
}

func newShopper(s *shop, variants []string, customers int, seed uint64, saleExists func(context.Context, string) (bool, error)) *shopper {
	return &shopper{
		shop: s, variants: variants, customers: customers, saleExists: saleExists,
		rand: rand.New(rand.NewPCG(seed, 0)), seen: map[string]bool{}, busy: map[int]bool{},
	}
}

var (
	firstNames = [...]string{"Ada", "Bea", "Carl", "Dörte", "Émile", "Fatima", "Günther", "Håkon"}
	lastNames  = [...]string{"Lovelace", "O'Neill", "Müller-Lüdenscheid", "Sørensen", "Nguyễn", "Šimić"}
)

// enter picks a customer who is not in the shop yet, and what they want to buy.
func (s *shopper) enter(number int) (int, basket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := number % s.customers
	for s.busy[n] {
		n = (n + 1) % s.customers
	}
	s.busy[n] = true
	b := basket{
		Email: fmt.Sprintf("customer%d@example.com", n),
		First: firstNames[s.rand.IntN(len(firstNames))],
		Last:  lastNames[n%len(lastNames)],
	}
	for _, i := range s.rand.Perm(len(s.variants))[:1+s.rand.IntN(3)] {
		b.Variants = append(b.Variants, s.variants[i])
		b.Quantities = append(b.Quantities, 1+s.rand.IntN(5))
	}
	// At least one line has a piece to spare, for a partial cancellation.
	b.Quantities[0]++
	return n, b
}

func (s *shopper) leave(customer int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, customer)
}

// buy makes one visit. With method "" it ends with a full cart.
func (s *shopper) buy(ctx context.Context, number int, method string) (order, error) {
	customer, b := s.enter(number)
	defer s.leave(customer)
	v, err := s.shop.fill(ctx, b)
	if err != nil {
		return order{}, fmt.Errorf("fill cart %d: %w", number, err)
	}
	if method == "" {
		return order{Code: v.order.Code}, nil
	}
	placed, err := v.checkOut(ctx, b, method)
	if err != nil {
		return order{}, fmt.Errorf("check out order %d: %w", number, err)
	}
	return s.shop.orderByID(ctx, placed.ID)
}

// histories are the lives that an order can have before syncd first runs, by turns.
var histories = [...]struct {
	name   string
	method string
	after  func(context.Context, *shopper, order) error
}{
	{"cart", "", nil},
	{"authorized", "invoice", nil},
	{"settled at once", "card", nil},
	{"authorized, later settled", "invoice", func(ctx context.Context, s *shopper, o order) error { return s.shop.settle(ctx, o) }},
	{"shipped", "card", func(ctx context.Context, s *shopper, o order) error { return s.shop.ship(ctx, o, false) }},
	{"authorized", "invoice", nil},
	{"delivered", "card", func(ctx context.Context, s *shopper, o order) error { return s.shop.ship(ctx, o, true) }},
	{"cancelled unpaid", "invoice", func(ctx context.Context, s *shopper, o order) error { return s.cancel(ctx, o) }},
	{"cancelled paid", "card", func(ctx context.Context, s *shopper, o order) error { return s.cancel(ctx, o) }},
	{"one piece cancelled", "card", func(ctx context.Context, s *shopper, o order) error { return s.shop.cancelPiece(ctx, o) }},
	{"authorized, one piece cancelled", "invoice", func(ctx context.Context, s *shopper, o order) error { return s.shop.cancelPiece(ctx, o) }},
	{"settled at once", "card", nil},
}

// seed makes a number of orders with all histories, some at a time.
func (s *shopper) seed(ctx context.Context, orders int) error {
	return inParallel(8, orders, func(i int) error {
		h := histories[i%len(histories)]
		// The history must not follow from the customer, else a customer would have all their orders alike.
		o, err := s.buy(ctx, i+i/len(histories), h.method)
		if err != nil {
			return err
		}
		if h.after != nil {
			if err := h.after(ctx, s, o); err != nil {
				return fmt.Errorf("%s: order %s: %w", h.name, o.Code, err)
			}
		}
		if o.ID != "" {
			s.giveBack(o.ID)
		}
		return nil
	})
}

// inParallel calls f for 0 to n-1, some at a time, and stops after the first error.
func inParallel(atOnce, n int, f func(int) error) error {
	next := make(chan int)
	stop := make(chan struct{})
	var once sync.Once
	var first error
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					once.Do(func() { first = err; close(stop) })
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break feed
		}
	}
	close(next)
	workers.Wait()
	return first
}

func (s *shopper) cancel(ctx context.Context, o order) error {
	exists, err := s.saleExists(ctx, o.Code)
	if err != nil {
		return err
	}
	if exists {
		s.mu.Lock()
		s.seen[o.Code] = true
		s.mu.Unlock()
	}
	return s.shop.cancel(ctx, o)
}

// take picks an order that nobody is working on, as it is now.
func (s *shopper) take(ctx context.Context) (order, bool, error) {
	s.mu.Lock()
	if len(s.open) == 0 {
		s.mu.Unlock()
		return order{}, false, nil
	}
	i := s.rand.IntN(len(s.open))
	id := s.open[i]
	s.open[i] = s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.mu.Unlock()
	o, err := s.shop.orderByID(ctx, id)
	if err != nil {
		s.giveBack(id)
		return order{}, false, err
	}
	return o, true, nil
}

func (s *shopper) giveBack(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, id)
}

func (s *shopper) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// change does to one order something that its state allows, and says what.
func (s *shopper) change(ctx context.Context) (string, error) {
	o, ok, err := s.take(ctx)
	if err != nil || !ok {
		return "", err
	}
	defer func() {
		if o.State != "Cancelled" && o.State != "Delivered" {
			s.giveBack(o.ID)
		}
	}()
	roll := s.roll(100)
	switch o.State {
	case "PaymentAuthorized":
		switch {
		case roll < 60:
			return "settled", s.shop.settle(ctx, o)
		case roll < 80:
			return "cancelled unpaid", s.cancel(ctx, o)
		case spare(o):
			return "one piece cancelled, unpaid", s.shop.cancelPiece(ctx, o)
		}
	case "PaymentSettled":
		switch {
		case roll < 60:
			return "shipped", s.shop.ship(ctx, o, roll < 20)
		case roll < 75:
			return "cancelled paid", s.cancel(ctx, o)
		case spare(o):
			return "one piece cancelled, paid", s.shop.cancelPiece(ctx, o)
		}
	}
	return "", nil
}

// spare reports whether an order has a line with more than one piece.
func spare(o order) bool {
	for _, l := range o.Lines {
		if l.Quantity > 1 {
			return true
		}
	}
	return false
}

// renameSomebody gives one of some customers another last name.
func (s *shopper) renameSomebody(ctx context.Context, known []customer) error {
	c := known[s.roll(len(known))]
	return s.shop.rename(ctx, c.ID, firstNames[s.roll(len(firstNames))], fmt.Sprintf("Newname%d", s.roll(1000)))
}

// load keeps the shop busy until the context ends. The shop may go away meanwhile (its database is stopped on purpose), so errors are
// counted and life goes on; what really happened is read from the shop afterwards.
type load struct {
	Bought, Changed, Failed int
	LastError               error
}

func (s *shopper) load(ctx context.Context, known []customer, first int) load {
	var l load
	var mu sync.Mutex
	number := first
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				number++
				n := number
				mu.Unlock()
				bought, changed, err := s.once(ctx, known, n)
				mu.Lock()
				l.Bought += bought
				l.Changed += changed
				if err != nil && !errors.Is(err, context.Canceled) {
					l.Failed++
					l.LastError = err
				}
				mu.Unlock()
				// A failing shop is asked again in a moment, a working one after a pause for breath.
				wait(ctx, pauseBetween)
			}
		})
	}
	workers.Wait()
	return l
}

// once does one thing in the shop.
func (s *shopper) once(ctx context.Context, known []customer, number int) (bought, changed int, err error) {
	switch roll := s.roll(10); {
	case roll < 4:
		method := "card"
		if roll < 2 {
			method = "invoice"
		}
		o, err := s.buy(ctx, number, method)
		if err != nil {
			return 0, 0, err
		}
		s.giveBack(o.ID)
		return 1, 0, nil
	case roll < 9:
		what, err := s.change(ctx)
		if err != nil || what == "" {
			return 0, 0, err
		}
		return 0, 1, nil
	default:
		return 0, 1, s.renameSomebody(ctx, known)
	}
}
