type 'a lst = Cons of 'a * 'a lst | Nil
let rec rev l acc = match l with Cons (x, r) -> rev r (Cons (x, acc)) | Nil -> acc
let rec each f l = match l with Cons (x, r) -> let y = f x in Cons (y, each f r) | Nil -> Nil
let rec fold f z l = match l with Cons (x, r) -> fold f (f z x) r | Nil -> z
let next s = (s * 1103 + 12345) mod 1000003
let mix a x = (a * 31 + x) mod 1000003
let rec range i n = if i >= n then Nil else Cons (i, range (i + 1) n)

type formula = Atom of int | Not of formula | And of formula * formula | Or of formula * formula
let rec nnf f pos = match f with
  | Atom k -> if pos then Atom k else Not (Atom k) | Not g -> nnf g (not pos)
  | And (a, b) -> if pos then And (nnf a pos, nnf b pos) else Or (nnf a pos, nnf b pos)
  | Or (a, b) -> if pos then Or (nnf a pos, nnf b pos) else And (nnf a pos, nnf b pos)
let rec formula d s = if d = 0 then Atom (s mod 8) else
  if s mod 5 = 0 then Not (formula (d - 1) (next s)) else if s mod 2 = 0 then And (formula (d - 1) (next s), formula (d - 1) (next (s + 1)))
  else Or (formula (d - 1) (next (s + 2)), formula (d - 1) (next (s + 3)))
let rec value k env = match env with Cons ((j, v), r) -> if j = k then v else value k r | Nil -> false
let rec holds f env = match f with Atom k -> value k env | Not g -> not (holds g env) | And (a, b) -> if holds a env then holds b env else false | Or (a, b) -> if holds a env then true else holds b env
let rec assign i m = if i = 8 then Nil else Cons ((i, m mod 2 = 1), assign (i + 1) (m / 2))
let rec trials m f acc = if m = 256 then acc else trials (m + 1) f (if holds f (assign 0 m) then mix acc m else acc)
let logic n = let f = formula n 7 in trials 0 (nnf f true) 0 + trials 0 (nnf f false) 1

type lz = Stop | Next of int * (unit -> lz)
let rec ints k = Next (k, fun () -> ints (k + 1))
let rec scale k s = match s with Stop -> Stop | Next (x, f) -> Next (x * k, fun () -> scale k (f ()))
let rec blend a b = match a, b with Stop, _ -> b | _, Stop -> a | Next (x, f), Next (y, g) ->
  if x < y then Next (x, fun () -> blend (f ()) b) else if y < x then Next (y, fun () -> blend a (g ())) else Next (x, fun () -> blend (f ()) (g ()))
let rec taken n s acc = if n = 0 then acc else match s with Stop -> acc | Next (x, f) -> taken (n - 1) (f ()) (mix acc x)
let lazies n = taken n (blend (scale 2 (ints 1)) (blend (scale 3 (ints 1)) (scale 5 (ints 1)))) 0

type map = Void | Fork of map * int * int * map * int
let depth m = match m with Void -> 0 | Fork (_, _, _, _, h) -> h
let rec find k m = match m with Void -> None | Fork (l, x, v, r, _) -> if k < x then find k l else if x < k then find k r else Some v
let fork l x v r = let a = depth l and b = depth r in Fork (l, x, v, r, if a >= b then a + 1 else b + 1)
let even l x v r =
  let a = depth l and b = depth r in
  if a > b + 2 then match l with Void -> Void | Fork (ll, lx, lv, lr, _) -> if depth ll >= depth lr then fork ll lx lv (fork lr x v r) else (match lr with Void -> Void | Fork (p, y, w, q, _) -> fork (fork ll lx lv p) y w (fork q x v r))
  else if b > a + 2 then match r with Void -> Void | Fork (rl, rx, rv, rr, _) -> if depth rr >= depth rl then fork (fork l x v rl) rx rv rr else (match rl with Void -> Void | Fork (p, y, w, q, _) -> fork (fork l x v p) y w (fork q rx rv rr))
  else fork l x v r
let rec add k w m = match m with Void -> Fork (Void, k, w, Void, 1) | Fork (l, x, v, r, h) -> if k < x then even (add k w l) x v r else if x < k then even l x v (add k w r) else Fork (l, k, w, r, h)
let rec collatz n m = if n = 1 then (0, m) else match find n m with Some v -> (v, m) | None -> let (a, t) = collatz (if n mod 2 = 0 then n / 2 else (3 * n + 1) mod 100003) m in (a + 1, add n (a + 1) t)
let rec longest i n m acc = if i > n then acc else let (a, t) = collatz i m in longest (i + 1) n t (mix acc a)
let memos n = longest 1 n Void 0

type tok = TNum of int | TId of int | TOp of int | TOpen | TClose
type ast = Lit of int | Ident of int | Binary of int * ast * ast | Neg of ast
let rec num s v = match s with Cons (c, r) -> if c >= 48 && c < 58 then num r ((v * 10 + c - 48) mod 10007) else (v, s) | Nil -> (v, s)
let rec lex s = match s with Nil -> None | Cons (c, r) -> if c = 32 then lex r else if c = 40 then Some (TOpen, r) else if c = 41 then Some (TClose, r) else
  if c >= 48 && c < 58 then let (k, t) = num r (c - 48) in Some (TNum k, t) else if c >= 97 then Some (TId (c - 97), r) else Some (TOp c, r)
let power o = if o = 42 then 2 else 1
let rec prefix s = match lex s with None -> Error 1 | Some (TNum k, r) -> Ok (Lit k, r) | Some (TId k, r) -> Ok (Ident k, r)
  | Some (TOpen, r) -> (match climb r 0 with Error e -> Error e | Ok (a, t) -> (match lex t with Some (TClose, u) -> Ok (a, u) | _ -> Error 2))
  | Some (TOp 45, r) -> (match prefix r with Error e -> Error e | Ok (a, t) -> Ok (Neg a, t)) | Some _ -> Error 3
and climb s least = match prefix s with Error e -> Error e | Ok (a, t) -> infix a t least
and infix a s least = match lex s with Some (TOp o, r) -> if power o <= least then Ok (a, s) else (match climb r (power o) with Error e -> Error e | Ok (b, t) -> infix (Binary (o, a, b)) t least) | _ -> Ok (a, s)
let rec calc a = match a with Lit k -> k | Ident k -> k * 7 + 1 | Neg b -> 0 - calc b | Binary (o, b, c) -> let x = calc b in let y = calc c in if o = 43 then (x + y) mod 10007 else if o = 45 then (x - y) mod 10007 else (x * y) mod 10007
let rec source i = if i = 0 then Cons (55, Nil) else
  if i mod 4 = 0 then Cons (40, Cons (97 + i mod 20, Cons (43, Cons (49 + i mod 8, Cons (41, Cons (42, source (i - 1)))))))
  else if i mod 3 = 0 then Cons (45, Cons (48 + i mod 10, Cons (50, Cons (32, Cons (45, source (i - 1))))))
  else Cons (99, Cons (32, Cons ((if i mod 2 = 0 then 43 else 42), Cons (32, source (i - 1)))))
let pratt n = match climb (source n) 0 with Ok (a, _) -> calc a | Error e -> 0 - e

type instr = IPush of int | ILoad of int | IStore of int | IAdd | ISub | IMul | IJump of int | IZero of int | IStop
type machine = { pc : int; s : int lst; g : int lst; t : int }
let rec at l i z = match l with Cons (x, r) -> if i = 0 then x else at r (i - 1) z | Nil -> z
let rec set l i v = match l with Cons (x, r) -> if i = 0 then Cons (v, r) else Cons (x, set r (i - 1) v) | Nil -> Nil
let step i m = match i, m with
  | IPush k, { pc; s; g; t } -> { pc = pc + 1; s = Cons (k, s); g; t = t + 1 }
  | ILoad k, { pc; s; g; t } -> { pc = pc + 1; s = Cons (at g k 0, s); g; t = t + 1 }
  | IStore k, { pc; s = Cons (x, s); g; t } -> { pc = pc + 1; s; g = set g k x; t = t + 1 }
  | IAdd, { pc; s = Cons (x, Cons (y, s)); g; t } -> { pc = pc + 1; s = Cons ((x + y) mod 1000003, s); g; t = t + 1 }
  | ISub, { pc; s = Cons (x, Cons (y, s)); g; t } -> { pc = pc + 1; s = Cons (y - x, s); g; t = t + 1 }
  | IMul, { pc; s = Cons (x, Cons (y, s)); g; t } -> { pc = pc + 1; s = Cons ((x * y) mod 10007, s); g; t = t + 1 }
  | IJump k, { s; g; t; _ } -> { pc = k; s; g; t = t + 1 }
  | IZero k, { pc; s = Cons (x, s); g; t } -> { pc = (if x = 0 then k else pc + 1); s; g; t = t + 1 }
  | _, { s; g; t; _ } -> { pc = -1; s; g; t }
let rec go code m = if m.pc < 0 then mix (at m.g 1 0) m.t else go code (step (at code m.pc IStop) m)
let vm n = go (Cons (ILoad 0, Cons (IZero 13, Cons (ILoad 1, Cons (IPush 3, Cons (IMul, Cons (ILoad 0, Cons (IAdd, Cons (IStore 1, Cons (ILoad 0, Cons (IPush 1, Cons (ISub, Cons (IStore 0, Cons (IJump 0, Nil))))))))))))))
  { pc = 0; s = Nil; g = Cons (n, Cons (7, Cons (0, Nil))); t = 0 }

type json = JNull | JNum of int | JList of json lst | JObj of (int * json) lst
let rec json d s = if d = 0 then (if s mod 4 = 0 then JNull else JNum (s mod 1000)) else
  if s mod 2 = 0 then JList (Cons (json (d - 1) (next s), Cons (json (d - 1) (next (s + 1)), Nil))) else JObj (Cons ((1, json (d - 1) (next (s + 2))), Cons ((2, json (d - 1) (next (s + 3))), Nil)))
let rec digits n k = if n < 10 then Cons (48 + n, k) else digits (n / 10) (Cons (48 + n mod 10, k))
let rec show j k = match j with JNull -> Cons (110, k) | JNum n -> digits n k | JList l -> Cons (91, items l (Cons (93, k))) | JObj l -> Cons (123, members l (Cons (125, k)))
and items l k = match l with Nil -> k | Cons (j, Nil) -> show j k | Cons (j, r) -> show j (Cons (44, items r k))
and members l k = match l with Nil -> k | Cons ((n, j), Nil) -> digits n (Cons (58, show j k)) | Cons ((n, j), r) -> digits n (Cons (58, show j (Cons (44, members r k))))
let rec parse s = match s with Cons (110, r) -> (JNull, r) | Cons (91, r) -> let (l, t) = elements r in (JList l, t) | Cons (123, r) -> let (l, t) = fields r in (JObj l, t) | _ -> let (n, t) = num s 0 in (JNum n, t)
and elements s = let (j, t) = parse s in match t with Cons (44, r) -> let (l, u) = elements r in (Cons (j, l), u) | Cons (_, r) -> (Cons (j, Nil), r) | Nil -> (Nil, Nil)
and fields s = let (n, t) = num s 0 in match t with Cons (_, t) -> let (j, t) = parse t in (match t with Cons (44, r) -> let (l, u) = fields r in (Cons ((n, j), l), u) | Cons (_, r) -> (Cons ((n, j), Nil), r) | Nil -> (Nil, Nil)) | Nil -> (Nil, Nil)
let jsons n = fold mix 7 (show (fst (parse (show (json n 42) Nil))) Nil)

type shape = Circle of float | Rect of float * float | Group of shape lst | Moved of float * float * shape
type box = { x0 : float; y0 : float; x1 : float; y1 : float }
let join (a : box) (b : box) = { x0 = (if a.x0 < b.x0 then a.x0 else b.x0); y0 = (if a.y0 < b.y0 then a.y0 else b.y0); x1 = (if a.x1 > b.x1 then a.x1 else b.x1); y1 = (if a.y1 > b.y1 then a.y1 else b.y1) }
let rec bounds s = match s with Circle r -> { x0 = 0. -. r; y0 = 0. -. r; x1 = r; y1 = r } | Rect (w, h) -> { x0 = 0.; y0 = 0.; x1 = w; y1 = h }
  | Group l -> fold (fun b t -> join b (bounds t)) { x0 = 0.; y0 = 0.; x1 = 0.; y1 = 0. } l
  | Moved (x, y, t) -> let b = bounds t in { x0 = b.x0 +. x; y0 = b.y0 +. y; x1 = b.x1 +. x; y1 = b.y1 +. y }
let rec shape d s = if d = 0 then (if s mod 2 = 0 then Circle (float (s mod 9)) else Rect (float (s mod 7), 2.)) else
  Moved (float (s mod 5), 1., Group (Cons (shape (d - 1) (next s), Cons (shape (d - 1) (next (s + 1)), Cons (shape (d - 1) (next (s + 2)), Nil)))))
let rec grow s = match s with Circle r -> Circle (r *. 1.5) | Rect (w, h) -> Rect (w +. 1., h +. 1.) | Group l -> Group (each grow l) | Moved (x, y, t) -> Moved (x, y, grow t)
let shapes n = let s = shape n 3 in let a = bounds s and e = bounds (grow s) in int_of_float (a.x0 +. a.y0 +. a.x1 +. a.y1 +. e.x0 *. 2. +. e.y0 +. e.x1 +. e.y1)

let unit a = fun s -> (a, s)
let thn m f = fun s -> let (a, t) = m s in f a t
let tick (i, l) = (i, (i + 1, Cons (mix i 3, l)))
let rec count n = if n < 2 then tick else thn (count (n - 1)) (fun a -> thn tick (fun b -> thn (count (n - 2)) (fun c -> unit ((a + b * c) mod 10007))))
let states n = let (a, (_, l)) = count n (0, Nil) in fold mix a l

type rank = Rank of int * int * rank lst
let link a b = match a, b with Rank (r, x, c), Rank (_, y, d) -> if x <= y then Rank (r + 1, x, Cons (b, c)) else Rank (r + 1, y, Cons (a, d))
let rank (Rank (r, _, _)) = r
let root (Rank (_, x, _)) = x
let rec put t l = match l with Nil -> Cons (t, Nil) | Cons (u, r) -> if rank t < rank u then Cons (t, l) else put (link t u) r
let rec melded a b = match a, b with Nil, _ -> b | _, Nil -> a | Cons (t, r), Cons (u, s) -> if rank t < rank u then Cons (t, melded r b) else if rank u < rank t then Cons (u, melded a s) else put (link t u) (melded r s)
let rec least l = match l with Nil -> None | Cons (t, r) -> match least r with None -> Some (t, Nil) | Some (u, s) -> if root t <= root u then Some (t, r) else Some (u, Cons (t, s))
let rec pops l acc = match least l with None -> acc | Some (Rank (_, x, c), r) -> pops (melded (rev c Nil) r) (mix acc x)
let rec pushes i s l = if i = 0 then l else pushes (i - 1) (next s) (put (Rank (0, s, Nil)) l)
let binomial n = pops (pushes n 11 Nil) 0

let rec safe c d l = match l with Nil -> true | Cons (x, r) -> if x = c || x = c + d || x = c - d then false else safe c (d + 1) r
let rec places n k = if k = 0 then Cons (Nil, Nil) else fold (fun acc q -> fold (fun a c -> if safe c 1 q then Cons (Cons (c, q), a) else a) acc (range 0 n)) Nil (places n (k - 1))
let boards n = fold (fun a l -> mix a (fold mix 0 l)) 0 (places n n)

let () =
  let n = int_of_string Sys.argv.(2) in
  let f = List.assoc Sys.argv.(1) [ "logic", logic; "lazies", lazies; "memos", memos; "pratt", pratt; "vm", vm; "jsons", jsons; "shapes", shapes; "states", states; "binomial", binomial; "boards", boards ] in
  let best = ref infinity and r = ref 0 in
  for _ = 1 to 25 do let t = Unix.gettimeofday () in r := f n; best := min !best (Unix.gettimeofday () -. t) done;
  Printf.printf "%d %.4f\n" !r (!best *. 1e3)
